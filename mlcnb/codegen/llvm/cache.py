"""Blobs on disk, found by the whole of what they were made from.

    file = magic | length of key | length of blob | digest of all the rest | key | gap | blob

The blob begins at a multiple of 64 bytes, as what it holds may (`pack`): a large file is
mapped, not read, and its arrays are used where they lie: files here are replaced whole and never
written to again, so what is mapped stays as it was.

The file's name is a hash of the key, but the key itself is stored and compared byte for byte: two
keys of one hash are a miss, never a mix-up. A file that is cut short, altered, or owned by somebody
else is a miss too. A folder that cannot be used means that nothing is kept; no call here fails
because of the disk.

`MLCNB_CACHE_DIR` names the folder (else the user's cache folder), `MLCNB_CACHE=0` turns it off.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mlcnb.codegen.llvm import sources
from mlcnb.core.digests import size_of, tree_digest
from mlcnb.core.files import kept_folder
from mlcnb.ir.memory import ALIGNMENT, MAPPED

Blob = TypeVar("Blob", bytes, memoryview)

_MAGIC = b"mlcnb-3\n"
_HEAD = struct.Struct("<8sQQ32s")
_GIB = 1 << 30


def _name_of(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=16).hexdigest()


class Store:
    """A folder of blobs, with a cap on its size; the least recently used go first.

    Args:
        folder: where; made when first written to.
        salt: stands before every key; when it changes, all that was kept before is a miss.
        max_bytes: cap on the sum of the files' sizes.
        name_of: from key to file name.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        salt: str = "",
        *,
        max_bytes: int = _GIB,
        name_of: Callable[[bytes], str] = _name_of,
    ) -> None:
        self.folder = Path(folder)
        self.salt = salt
        self.max_bytes = max_bytes
        self.hits = self.misses = 0
        self._name_of = name_of
        self._lock = threading.Lock()
        self._room: int | None = None

    def get(self, key: str) -> bytes | None:
        """The blob that was put under exactly this key, or None."""
        found = self.view(key)
        return None if found is None else bytes(found)

    def view(self, key: str) -> memoryview | None:
        """The same, where it lies: in memory that goes when nobody has a view of it."""
        raw = self._raw(key)
        path = self._path(raw)
        blob = _blob_for(raw, _read(path))
        if blob is None:
            self.misses += 1
            return None
        self.hits += 1
        _touch(path)
        return blob

    def put(self, key: str, *blob: Any, holds: Callable[[], bool] | None = None) -> None:
        """Keep a blob, or its parts one behind the other. It appears whole or not at all; not if
        `holds`, asked when all of it is written, says that it is not what it should be.
        """
        raw = self._raw(key)
        data = _frame(raw, [*blob])
        size = size_of(data)
        if size > self.max_bytes or not _write(self._path(raw), data, holds):
            return
        with self._lock:
            self._make_room(size)

    def size(self) -> int:
        """Sum of the sizes of all files, in bytes."""
        return sum(size for _, size, _ in self._entries())

    def clear(self) -> None:
        """Forget everything."""
        for _, _, path in self._entries():
            _remove(path)
        with self._lock:
            self._room = None

    def _raw(self, key: str) -> bytes:
        return f"{self.salt}\n{key}".encode(errors="surrogatepass")

    def _path(self, raw: bytes) -> Path:
        return self.folder / f"{self._name_of(raw)}.blob"

    def _make_room(self, written: int) -> None:
        """Count down what still fits; at zero look at the folder and drop the oldest tenth."""
        if self._room is not None and self._room > written:
            self._room -= written
            return
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        keep = self.max_bytes if total <= self.max_bytes else self.max_bytes * 9 // 10
        for _, size, path in entries:
            if total <= keep:
                break
            _remove(path)
            total -= size
        self._room = max(self.max_bytes - total, 0)

    def _entries(self) -> list[tuple[int, int, str]]:
        """(time last used in ns, size, path) of each file."""
        try:
            with os.scandir(self.folder) as found:
                files = [entry for entry in found if entry.name.endswith((".blob", ".part"))]
            stats = [(file.stat(), file.path) for file in files]
        except OSError:  # no such folder, or another process is clearing it
            return []
        return [(stat.st_mtime_ns, stat.st_size, path) for stat, path in stats]


def _frame(key: bytes, blob: list[Any]) -> list[Any]:
    head = _HEAD.pack(_MAGIC, len(key), size_of(blob), tree_digest(key, blob)) + key
    return [head.ljust(_start(key), b"\0"), *blob]


def _start(key: bytes) -> int:
    """Where the blob begins."""
    return up_to(_HEAD.size + len(key), ALIGNMENT)


def up_to(n: int, step: int) -> int:
    """The first multiple of `step` that is not below `n`."""
    return -(-n // step) * step


def _blob_for(key: bytes, data: memoryview | None) -> memoryview | None:
    """The blob in a file's bytes if they are whole and were written for this very key."""
    if data is None or len(data) < _HEAD.size:
        return None
    magic, key_length, blob_length, digest = _HEAD.unpack_from(data)
    start = _start(key)
    if magic != _MAGIC or key_length != len(key) or len(data) != start + blob_length:
        return None
    gap, blob = data[_HEAD.size + len(key) : start], data[start:]
    if data[_HEAD.size : _HEAD.size + len(key)] != key or any(gap):
        return None
    return blob if tree_digest(key, blob) == digest else None


def _read(path: Path) -> memoryview | None:
    """All bytes of a regular file that is this user's own, else None."""
    try:
        with open(path, "rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            if hasattr(os, "geteuid") and not _is_mine(stat):
                return None
            if stat.st_size < MAPPED:
                return memoryview(file.readall())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except (OSError, ValueError):  # not there, not readable, a folder, or more than there is
        return None


def _is_mine(stat: os.stat_result) -> bool:
    return stat.st_uid == os.geteuid() and not stat.st_mode & 0o022


def _write(path: Path, data: list[Any], holds: Callable[[], bool] | None = None) -> bool:
    """Write next to the goal and move it there; False where the disk does not allow it, or where
    it does not hold.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(suffix=".part", dir=path.parent)
    except OSError:
        return False
    try:
        with open(handle, "wb") as file:
            file.writelines(data)
        if holds is not None and not holds():
            _remove(part)
            return False
        os.replace(part, path)
    except OSError:
        _remove(part)
        return False
    return True


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # read-only: then nothing is dropped from here either
        pass


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:  # already gone, or not ours to remove
        pass


def pack(parts: Sequence[Any], align: int = 1) -> bytes:
    """Several blobs as one (`packed`)."""
    return b"".join(packed(parts, align))


def packed(parts: Sequence[Any], align: int = 1) -> list[Any]:
    """What lies one behind the other where several blobs are one: their count, their lengths, then
    themselves.

    Args:
        parts: bytes, or a row of them as a buffer.
        align: each begins at a multiple of so many bytes.
    """
    views = [memoryview(part) for part in parts]
    pieces: list[Any] = [struct.pack(f"<I{len(views)}Q", len(views), *map(len, views))]
    at = len(pieces[0])
    for view in views:
        gap = -at % align
        pieces += [bytes(gap), view]
        at += gap + len(view)
    return pieces


def unpack(blob: Blob, align: int = 1) -> list[Blob] | None:
    """What `pack` was given, or None where the lengths do not add up; of a view, views."""
    try:
        (count,) = struct.unpack_from("<I", blob)
        lengths = struct.unpack_from(f"<{count}Q", blob, 4)
    except struct.error:
        return None
    at, parts = 4 + 8 * count, []
    for length in lengths:
        at = up_to(at, align)
        parts.append(blob[at : at + length])
        at += length
    return parts if at == len(blob) else None


def user_store() -> Store | None:
    """The cache of this user, as the environment says now; None where it is off or impossible."""
    folder = kept_folder()
    return None if folder is None else _store_at(folder)


@cache
def _store_at(folder: Path) -> Store:
    return Store(folder, salt(folder))


@cache
def salt(folder: Path) -> str:
    """What the user's keys start with: the versions that make code, and a digest of the sources.

    A change of the compiler makes everything it compiled before a miss; the same sources find what
    they made, whenever they were written.
    """
    found = sources.digest(Store(folder, "sources"))
    others = " ".join(f"{name} {_version(name)}" for name in ("llvmlite", "islpy"))
    return f"mlcnb {_version('mlcnb')} {found} {others}"


def _version(package: str) -> str:
    """What is installed, by the name of its folder: `importlib.metadata` takes 10 ms to load."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # no folder: an archive
            continue
        for name in names:
            if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                return name.removesuffix(".dist-info").removeprefix(f"{package}-")
    return "checkout"
