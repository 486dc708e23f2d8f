"""Memory of a running program: flat NumPy arrays, and buffers as views of them.

    View(array, shape, strides, offset)      element (i, j) lies at offset + i * strides[0] + j * …

Fresh memory is filled with 0xFF bytes: NaN in floats, so that reading what nobody wrote shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.ir.dtype import DType
from mlcnb.ir.memory import too_large
from mlcnb.tir.buffer import Buffer


class View:
    """A buffer at run time: shape, strides and offset in elements over a flat array."""

    __slots__ = ("array", "buffer", "offset", "place", "read", "shape", "strides", "write")

    def __init__(
        self, buffer: Buffer, array: np.ndarray, shape: Sequence[int],
        strides: Sequence[int] | None = None, offset: int = 0,
    ) -> None:  # fmt: skip
        self.buffer = buffer
        self.array = array
        self.shape = tuple(shape)
        self.strides = compact_strides(self.shape) if strides is None else tuple(strides)
        self.offset = offset
        self.read = reader(array, buffer.dtype)
        self.write = array.__setitem__
        #: the address of its memory, when somebody has asked for it
        self.place: int | None = None
        self.check()

    def check(self) -> None:
        """Raise where an element of the view lies outside of its memory."""
        if 0 in self.shape:
            return
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        first = self.offset + sum(s for s in steps if s < 0)
        last = self.offset + sum(s for s in steps if s > 0)
        room = len(self.array) // self.buffer.dtype.lanes
        if first < 0 or last >= room:
            raise ExecutionError(
                f"out of bounds: buffer {self.buffer.name} of shape {self.shape} reaches elements "
                f"{first} to {last} of memory that has {room}"
            )

    def address(self, at: int) -> int:
        """Where an element lies: the same for all views of the memory."""
        if self.place is None:
            self.place = self.array.__array_interface__["data"][0]
        return self.place + at * self.array.itemsize

    def index(self, at: int) -> tuple[int, ...]:
        """The indices of the element at a flat position (of a vector: that of one of its lanes)."""
        rest, found = at // self.buffer.dtype.lanes - self.offset, []
        for step, extent in zip(self.strides, self.shape, strict=True):
            found.append(rest // step % max(extent, 1) if step else 0)
        return tuple(found)


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def reader(array: np.ndarray, kind: DType) -> Callable[[int], Any]:
    """Element -> Python number."""
    if kind.is_float and not (kind.code == "float" and kind.bits >= 16):
        return lambda i: float(array[i])
    if array.dtype.kind not in "biuf":  # the narrow integers of ml_dtypes
        return lambda i: int(array[i])
    return array.item


def allocate(kind: DType, size: int) -> np.ndarray:
    """Fresh memory of `size` elements (vectors count their lanes)."""
    count = max(size, 0) * kind.lanes * kind.numpy.itemsize
    try:
        raw = np.full(count, 0xFF, "uint8")
    except (MemoryError, ValueError, OverflowError):
        raise too_large(count) from None
    if kind.is_bool:
        raw[:] = 1
    return raw.view(kind.numpy)


def typed(array: np.ndarray, kind: DType) -> np.ndarray:
    """The same memory as elements of another dtype."""
    return array if array.dtype == kind.numpy else array.view(kind.numpy)


def element_shape(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array in elements of the buffer: a last dimension holds the lanes of vectors.

    Raises:
        RuntimeInputError: the last dimension has another length.
    """
    lanes = buffer.dtype.lanes
    if lanes == 1:
        return shape
    if not shape or shape[-1] != lanes:
        raise RuntimeInputError(
            f"argument {buffer.name} holds {buffer.dtype}: its last dimension must be {lanes}, "
            f"got shape {shape}"
        )
    return shape[:-1]


def flat_argument(buffer: Buffer, given: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """(flat array to work on, array to copy the result back to or None).

    Raises:
        RuntimeInputError: it is no array, or of another dtype or rank than the buffer.
    """
    if not isinstance(given, np.ndarray):
        raise RuntimeInputError(
            f"argument {buffer.name} must be a numpy array, got {type(given).__name__}"
        )
    if given.dtype != buffer.dtype.numpy:
        raise RuntimeInputError(
            f"argument {buffer.name} must be {buffer.dtype}, got {given.dtype}",
            hint=f"convert it with .astype({str(buffer.dtype)!r})",
        )
    if len(element_shape(buffer, given.shape)) != buffer.ndim:
        raise RuntimeInputError(
            f"argument {buffer.name} must have {buffer.ndim} dimensions, got shape {given.shape}"
        )
    if given.flags.c_contiguous:
        return given.reshape(-1), None
    return np.ascontiguousarray(given).reshape(-1), given


def size_of(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)
