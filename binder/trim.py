"""Takes out of an environment what no reader opens, and stores a file that is there twice once.

Usage: python binder/trim.py FOLDER    (`make lab` calls it on .venv)

What goes is what the packages' own makers test with or compile from, and tables of languages. It
comes back with `pip install --force-reinstall --no-deps PACKAGE`: babel, for one, where JupyterLab
is to speak German.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from filecmp import cmp
from pathlib import Path

# What goes, and why: MB on the disk with the versions of requirements.txt.
UNREAD = re.compile(
    r"/babel/locale-data/(?!en[._]|root\.).*\.dat$"  # 33: names of months in 1,000 locales
    r"|/jedi/third_party/(typeshed/stubs|django-stubs)/.*\.pyi$"  # 24: of packages not here
    r"|/site-packages/(\w+/)+tests/|/onnx/backend/test/"  # 29: `make test` gets ONNX's back
    r"|/jupyterlab/galata/"  # 6: JupyterLab's own tests in a browser
    r"|/(fontTools|debugpy)/.*\.c$"  # 11: sources of modules that are here compiled
    r"|/fontTools/.*\.so$"  # 13: modules that are here as Python too, a little slower then
    r"|\.js\.map$"  # 8: where a line of minified script came from
)
# Two copies of a smaller file cost less than the look at them.
SHARED = 4 << 10


def trim(folder: Path) -> None:
    """Leave in `folder` what is read, each file once."""
    for path in files(folder):
        if UNREAD.search(path.as_posix()):
            path.unlink()
            with suppress(OSError):  # it holds something yet
                for above in path.parents:
                    above.rmdir()
    for kept, twin in twins(folder):
        share(kept, twin)


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without links to elsewhere."""
    for place, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(place, name)).is_symlink())


def twins(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of files of one name and the same bytes: JupyterLab installs itself twice."""
    first: dict[tuple[str, int], Path] = {}
    for path in sorted(files(folder)):
        size = path.stat().st_size
        kept = first.setdefault((path.name, size), path)
        if size >= SHARED and not kept.samefile(path) and cmp(kept, path, shallow=False):
            yield kept, path


def share(kept: Path, twin: Path) -> None:
    """Make `twin` a second name of `kept`, where the file system can; else leave it."""
    beside = twin.with_name(f"{twin.name}.twin")
    try:
        os.link(kept, beside)
    except OSError:
        return
    beside.replace(twin)


def size(folder: Path) -> int:
    """Bytes that the files below a folder take on the disk, one with two names counted once."""
    found = {(at.st_dev, at.st_ino): at for at in (path.stat() for path in files(folder))}
    return sum(
        at.st_blocks * 512 if hasattr(at, "st_blocks") else at.st_size for at in found.values()
    )


if __name__ == "__main__":
    given = Path(sys.argv[1])
    trim(given)
    print(f"{given}: {size(given) / 1e6:.0f} MB")
