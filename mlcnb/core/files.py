"""Files that appear whole or not at all, and the folder where what is made is kept.

with replacing(Path("model.tar")) as part:     writes model.tar.XXXX.part beside it,
    write(part)                                which takes its place at the end, or goes
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it becomes `target` if nothing goes wrong.

    Of a link the file that it leads to is replaced. What is there and is no file (/dev/null, a
    pipe) stays what it is: the path is `target` itself.

    Raises:
        OSError: the folder is not there, or cannot be written to.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        yield target
        return
    part = target.with_name(f"{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Alone with a file among all processes that ask so; the lock goes with the process.

    Raises:
        OSError: the file cannot be opened, or its file system has no locks.
    """
    with target.open("r+b") as file:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def append_line(target: Path, line: str) -> None:
    """A line at the end of a file, whole: what a process that was ended left unfinished goes.

    The caller is alone with the file (`locked`).

    Raises:
        OSError: the file cannot be written, or there is no room: then nothing is added.
    """
    with target.open("r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        if file.read(1) not in (b"", b"\n"):
            file.seek(0)
            end = file.read().rfind(b"\n") + 1
        file.truncate(end)
        file.seek(end)
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def user_folder() -> Path | None:
    """Where this platform wants caches kept, or None where there is no home."""
    given = os.environ.get("MLCNB_CACHE_DIR")
    if given:
        return Path(given)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "mlcnb" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "mlcnb"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlcnb"
    except RuntimeError:  # no home folder
        return None


def kept_folder() -> Path | None:
    """The same, or None where `MLCNB_CACHE` turns keeping off."""
    is_off = os.environ.get("MLCNB_CACHE", "1").lower() in ("0", "off", "no", "false")
    return None if is_off else user_folder()
