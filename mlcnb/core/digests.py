"""Digests of large contents, on threads: hashlib lets go of the interpreter while it works.

digests([weights, biases])          a digest of each
tree_digest(blob)                   one of a whole: of the digests of its pieces
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: bytes that one thread takes at a time, and below which no thread is asked
PIECE = 4 << 20
MOST_THREADS = 4


def digests(contents: Sequence[Any]) -> list[bytes]:
    """The SHA-256 digest of each of some contents: bytes, or contiguous views of bytes."""
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    if threads == 1 or sum(memoryview(x).nbytes for x in contents) <= PIECE:
        return [hashlib.sha256(x).digest() for x in contents]
    with ThreadPoolExecutor(threads, "mlcnb-digest") as pool:
        return list(pool.map(lambda x: hashlib.sha256(x).digest(), contents))


def tree_digest(*contents: Any) -> bytes:
    """32 bytes that tell contents of these lengths from any others: of the digests of pieces."""
    views = [memoryview(x) for x in contents]
    pieces = [v[at : at + PIECE] for v in views for at in range(0, max(v.nbytes, 1), PIECE)]
    lengths = " ".join(str(v.nbytes) for v in views).encode()
    return hashlib.sha256(b"".join((lengths, b"\n", *digests(pieces)))).digest()
