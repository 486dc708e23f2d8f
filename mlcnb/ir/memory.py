"""Memory that vectors are loaded from whole: arrays that begin at a multiple of 64 bytes.

aligned_empty((3, 5), np.dtype("float32"))     NumPy's own arrays begin at multiples of 16
aligned(array)                                 the array, or a copy that is aligned
mapped_empty((512, 512, 3, 3), float32)        pages of its own, which go back when it is dropped
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError

#: bytes: a vector of AVX-512, and a line of the cache
ALIGNMENT = 64
#: bytes of weights that get pages of their own
MAPPED = 128 << 10
#: bytes from which two threads make an array
HALVED = 1 << 20
#: bytes from which those are large pages, where the system has them
LARGE_PAGE = 2 << 20


def aligned_empty(shape: Sequence[int], dtype: np.dtype, align: int = ALIGNMENT) -> np.ndarray:
    """An uninitialised C-contiguous array whose data begin at a multiple of `align` bytes.

    Raises:
        ExecutionError: there is not so much memory.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        raw = np.empty(size + align, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise too_large(size) from None
    return np.ndarray(shape, dtype, raw, -address_of(raw) % align)


def too_large(size: int) -> ExecutionError:
    """The error for memory that this machine does not have."""
    return ExecutionError(
        f"{size:,} bytes ({size / 2**30:,.1f} GiB) are needed at once: more memory than there is",
        hint="call it with smaller inputs: a result may be much larger than what it is made of",
    )


def mapped_empty(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """As `aligned_empty`, for weights: large ones in pages of their own.

    The C library keeps what is freed. Weights take several forms on their way to a kernel, so it
    would keep as much again as a model's size. Large pages are first written to three times as fast
    as small ones (VGG-19: 0.1 s in place of 0.33 s).
    """
    size = math.prod(shape) * dtype.itemsize
    if size < MAPPED:
        return aligned_empty(shape, dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    try:
        pages = mmap.mmap(-1, size, **private)
    except (OSError, ValueError, OverflowError):
        raise too_large(size) from None
    if size >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def address_of(array: Any) -> int:
    """Where the data of an array begin."""
    try:
        return addressof(c_char.from_buffer(array))  # a third of the time of `array.ctypes.data`
    except (TypeError, ValueError, BufferError):  # read-only, strided, empty, no plain numbers
        return array.ctypes.data


def array_at(address: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """The elements at an address, which whoever asks knows to be there, without a copy."""
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    raw: Any = (c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(shape, dtype, raw)


def is_aligned(array: np.ndarray) -> bool:
    """True for a C-contiguous array that begins at a multiple of 64 bytes; any scalar does."""
    return array.size <= 1 or (array.flags.c_contiguous and address_of(array) % ALIGNMENT == 0)


def aligned(array: np.ndarray) -> np.ndarray:
    """The array itself where it is contiguous and aligned, else a copy that is."""
    if is_aligned(array):
        return array
    copy = mapped_empty(array.shape, array.dtype)

    def fill(rows: slice) -> None:
        copy[rows] = array[rows]

    by_halves(copy, fill)
    return copy


def by_halves(result: np.ndarray, fill: Callable[[slice], None]) -> None:
    """Let `fill` make the rows of a result; the halves of a large one on two threads at once.

    NumPy lets go of Python's lock while it computes, and one core alone does not move as many bytes
    as the memory gives.
    """
    rows = result.shape[0] if result.ndim else 0
    if result.nbytes < HALVED or rows < 2:
        fill(slice(None) if result.ndim else ...)  # type: ignore[arg-type]
        return
    with ThreadPoolExecutor(1, "mlcnb-fill") as pool:
        first = pool.submit(fill, slice(0, rows // 2))
        fill(slice(rows // 2, rows))
        first.result()
