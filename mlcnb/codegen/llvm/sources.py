"""A digest of the source files that what is kept on disk depends on.

    digest(store)                   of what the files hold that make kernels: the same wherever and
                                    whenever they were written
    digest(store, parts=GRAPHS)     of the others that passes over graphs depend on

To read them all takes 30 ms, so the digest is kept, by the sizes and times of change of the files.
What a function means is in the cache's keys already; so for kernels operators, passes over graphs
and views do not count, and an edit there leaves the kernels of yesterday in use.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

#: below mlcnb: from a PrimFunc to its object; a test sees that nothing else is loaded on the way
PARTS = ("arith", "codegen", "core", "dlight", "ir", "machine", "target", "tir")
#: what a module goes through before, beside these; a test sees to it too
GRAPHS = ("op", "relax", "runtime", "script", "te")


class Kept(Protocol):
    """A store of blobs."""

    def get(self, key: str) -> bytes | None:
        """What was put there."""

    def put(self, key: str, blob: bytes) -> None:
        """Keep it."""


def digest(store: Kept, root: Path | None = None, parts: tuple[str, ...] = PARTS) -> str:
    """The digest of all source files of these parts of mlcnb, in hexadecimal."""
    root = root or Path(__file__).resolve().parents[2]
    found = sorted(line for part in parts for line in _files(root / part))
    seen = _hashed(" ".join(map(str, line)).encode() for line in found)
    kept = store.get(seen)
    if kept is not None and len(kept) == 32:
        return kept.decode()
    made = _hashed(_content(root, Path(path)) for path, *_stat in found)
    store.put(seen, made.encode())
    return made


def _files(folder: str | os.PathLike[str]) -> Iterator[tuple[str, int, int, int]]:
    """The source files below a folder: path, size, times of change."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry)
            elif entry.name.endswith(".py"):
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _content(root: Path, path: Path) -> bytes:
    data = path.read_bytes()
    return f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data


def _hashed(parts: Iterable[bytes]) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(part + b"\n")
    return hasher.hexdigest()
