"""Large tensors of a file are read beside protobuf, straight into memory of their own.

    in the file     graph { initializer { dims: 4096 dims: 4096 raw_data: 64 MiB } }
    given to parse  graph { initializer { dims: 4096 dims: 4096 raw_data: a token } }
    held            token -> array of 64 MiB, aligned, as kernels read it

Protobuf would copy what it parses, and copy it again when it is asked for. So the bytes are walked
first, only where large tensors may lie, and their data are replaced; all else goes to protobuf as
it is. A token is random, so no file can name one. Bytes that are no messages are left to protobuf,
which says what is wrong with them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from mlcnb.ir.memory import mapped_empty

#: raw data of at least so many bytes are taken apart: more than `skeleton` leaves in a tensor
LARGE = 1 << 16
TOKEN_BYTES = 32
#: bytes that one thread reads in one go
CHUNK = 32 << 20
#: messages inside of messages that are walked; what lies deeper is protobuf's
_DEPTH = 64
#: message -> number of a field -> the message that it holds; "raw" is the data of a tensor
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {9: "raw"},
}


class NotApart(Exception):
    """Bytes that are no protobuf messages, or strange ones: to be parsed whole."""


class Apart:
    """A file in two parts.

    Attributes:
        message: the bytes of the model without its large tensors.
        held: token -> the bytes of a large tensor.

    Raises:
        NotApart: see there.
        OSError: it cannot be read.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.spans: dict[bytes, tuple[int, int]] = {}
        self.message = self.without_large("model", 0, size, 0)
        self.held = _read_all(file, self.spans)

    def without_large(self, kind: str, start: int, stop: int, depth: int) -> bytes:
        """The bytes of a message, each large tensor's data replaced by a token."""
        if depth > _DEPTH:
            return self.read(start, stop)
        made: list[bytes] = []
        kept = start
        for field, tag_at, begin, end in self.large_fields(start, stop):
            inner = _INSIDE[kind].get(field)
            if inner is None:
                continue
            if inner == "raw":
                new = self.token(begin, end)
            else:
                new = self.without_large(inner, begin, end, depth + 1)
            made += [self.read(kept, tag_at), _varint(field << 3 | 2), _varint(len(new)), new]
            kept = end
        return b"".join([*made, self.read(kept, stop)])

    def large_fields(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """(number, where its tag is, begin, end) of every large field that has a length."""
        at = start
        while at < stop:
            self.file.seek(at)
            head = self.file.read(min(20, stop - at))
            tag, used = _number(head, 0)
            field, wire = tag >> 3, tag & 7
            length = 0
            if wire == 2:
                length, used = _number(head, used)
            elif wire == 0:
                _, used = _number(head, used)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise NotApart
            begin, end = at + used, at + used + length
            if end > stop:
                raise NotApart
            if wire == 2 and length >= LARGE:
                yield field, at, begin, end
            at = end

    def token(self, begin: int, end: int) -> bytes:
        """What stands for the bytes of a tensor."""
        made = secrets.token_bytes(TOKEN_BYTES)
        self.spans[made] = begin, end
        return made

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of the file."""
        self.file.seek(start)
        found = self.file.read(stop - start)
        if len(found) != stop - start:
            raise NotApart
        return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint that begins at `at`, and where it ends."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    raise NotApart


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _read_all(file: BinaryIO, spans: dict[bytes, tuple[int, int]]) -> dict[bytes, np.ndarray]:
    """The bytes of all tensors; on two threads, for most of the time goes into new pages."""
    held = {
        t: mapped_empty((end - begin,), np.dtype(np.uint8)) for t, (begin, end) in spans.items()
    }
    pieces = [
        (held[token][at - begin : min(at + CHUNK, end) - begin], at)
        for token, (begin, end) in spans.items()
        for at in range(begin, end, CHUNK)
    ]
    if isinstance(file, BytesIO) or not hasattr(os, "preadv"):
        for piece, at in pieces:
            file.seek(at)
            _fill(piece, lambda view, _at: file.readinto(view), at)  # type: ignore[attr-defined]
        return held
    number = file.fileno()
    with ThreadPoolExecutor(2, "mlcnb-read") as pool:
        jobs = [
            pool.submit(_fill, piece, lambda view, at: os.preadv(number, [view], at), at)
            for piece, at in pieces
        ]
        for job in jobs:
            job.result()
    return held


def _fill(piece: np.ndarray, read: Any, at: int) -> None:
    """Read into an array until it is full."""
    view, done = memoryview(piece.data), 0
    while done < len(view):
        got = read(view[done:], at + done)
        if not got:
            raise NotApart
        done += got
