"""Digests of large contents, on threads: hashlib lets go of the interpreter while it works.

digests([weights, biases])          a digest of each
tree_digest(blob)                   one of a whole: of the digests of its pieces
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

#: bytes that one thread takes at a time, and below which no thread is asked
PIECE = 4 << 20
MOST_THREADS = 4


def digests(contents: Sequence[Any]) -> list[bytes]:
    """The SHA-256 digest of each of some contents: bytes, contiguous views of bytes, or lists of
    such, which lie one behind the other.
    """
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    if threads == 1 or sum(map(size_of, contents)) <= PIECE:
        return list(map(_digest, contents))
    with ThreadPoolExecutor(threads, "mlcnb-digest") as pool, suppress(RuntimeError):
        return list(pool.map(_digest, contents))
    return list(map(_digest, contents))  # no thread begins while a process ends


def tree_digest(*contents: Any) -> bytes:
    """32 bytes that tell contents of these lengths from any others: of the digests of pieces.

    A list of bytes has the digest of all of them together.
    """
    pieces = [piece for x in contents for piece in _pieces(x)]
    lengths = " ".join(str(size_of(x)) for x in contents).encode()
    return hashlib.sha256(b"".join((lengths, b"\n", *digests(pieces)))).digest()


def size_of(content: Any) -> int:
    """Bytes of a content."""
    return sum(memoryview(part).nbytes for part in _parts(content))


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _digest(content: Any) -> bytes:
    made = hashlib.sha256()
    for part in _parts(content):
        made.update(part)
    return made.digest()


def _pieces(content: Any) -> list[list[memoryview]]:
    """A content cut after each `PIECE` bytes, whatever it is made of; one piece of nothing."""
    pieces: list[list[memoryview]] = [[]]
    room = PIECE
    for part in _parts(content):
        view = memoryview(part)
        while view.nbytes > room:
            pieces[-1].append(view[:room])
            view, room = view[room:], PIECE
            pieces.append([])
        pieces[-1].append(view)
        room -= view.nbytes
    return pieces
