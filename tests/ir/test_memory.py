"""Arrays that begin at a multiple of 64 bytes."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from mlcnb.ir.memory import MAPPED, aligned, aligned_empty, by_halves, is_aligned, mapped_empty


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


@pytest.mark.parametrize("size", [0, 1, 4096, MAPPED - 1, MAPPED, MAPPED + 1])
def test_weights_are_aligned_and_may_be_written(size):
    made = mapped_empty((size,), np.dtype("uint8"))
    assert made.shape == (size,) and is_aligned(made) and made.flags.writeable
    made[:] = 7
    assert int(made.sum()) == 7 * size


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_pages_of_weights_go_back_when_they_are_dropped():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    kept = [mapped_empty((1 << 20,), np.dtype("float32")) for _ in range(8)]
    for array in kept:
        array[:] = 1
    between = mapped_empty(
        (1,), np.dtype("float32")
    )  # the C library could not give back what is below
    before = resident()
    del kept, array
    assert before - resident() >= 7 * (4 << 20)
    assert between.size == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_large_arrays_are_copied_by_halves(rows):
    given = np.arange(rows * 600 * 1024, dtype=np.float32).reshape(rows, 600, 1024)
    turned = given.transpose(0, 2, 1)
    made = aligned(turned)
    assert is_aligned(made) and made.flags.c_contiguous
    np.testing.assert_array_equal(made, turned)


def test_halves_cover_every_row_once_and_tell_errors():
    result, seen = np.zeros((5, 1 << 20), np.uint8), []
    by_halves(result, seen.append)
    assert sorted((s.start, s.stop) for s in seen) == [(0, 2), (2, 5)]

    def broken(rows: slice) -> None:
        raise ValueError(f"from {rows.start}")

    with pytest.raises(ValueError, match="from 2"):
        by_halves(result, broken)
    scalar = np.zeros((), np.float32)
    by_halves(scalar, lambda rows: scalar.__setitem__(rows, 3))
    assert scalar == 3
