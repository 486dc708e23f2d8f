"""Temporary folders by TVM's names.

temp = utils.tempdir()
path = temp.relpath("kernel.ll")        gone when `temp` is
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class TempDirectory:
    """A folder that is removed when nobody holds this object, or by `remove()`."""

    def __init__(self) -> None:
        self.temp_dir = tempfile.mkdtemp(prefix="mlcnb-")
        self.remove = weakref.finalize(self, shutil.rmtree, self.temp_dir, ignore_errors=True)

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return str(Path(self.temp_dir) / name)

    def listdir(self) -> list[str]:
        """Names of what is in the folder, sorted."""
        return sorted(p.name for p in Path(self.temp_dir).iterdir())


def tempdir() -> TempDirectory:
    """A new temporary folder."""
    return TempDirectory()
