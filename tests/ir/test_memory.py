"""Arrays that begin at a multiple of 64 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb.ir.memory import aligned, aligned_empty, is_aligned


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float64", "uint8"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4)])
def test_fresh_memory_is_aligned(shape, dtype):
    made = aligned_empty(shape, np.dtype(dtype))
    assert (made.shape, made.dtype) == (shape, np.dtype(dtype))
    assert made.size == 0 or made.ctypes.data % 64 == 0
    assert made.flags.c_contiguous and made.flags.writeable


def at(offset: int, count: int = 40) -> np.ndarray:
    """An array that begins so many bytes after a multiple of 64."""
    raw = aligned_empty((4 * count + 64,), np.dtype("uint8"))
    made = raw[offset : offset + 4 * count].view("float32")
    made[:] = np.arange(count)
    return made


def test_what_is_aligned_stays_where_it_is():
    for array in (at(0), at(64), at(0).reshape(5, 8), np.float32([3]), np.zeros((0, 3))):
        assert is_aligned(array)
        assert aligned(array) is array


@pytest.mark.parametrize(
    "array",
    [at(4), at(60).reshape(4, 10), at(0).reshape(5, 8).T, np.broadcast_to(np.float32(2), (3, 4))],
)
def test_what_is_not_aligned_is_copied(array):
    made = aligned(array)
    assert not is_aligned(array) and is_aligned(made)
    assert made.dtype == array.dtype
    np.testing.assert_array_equal(made, array)
    assert not np.may_share_memory(made, array)
