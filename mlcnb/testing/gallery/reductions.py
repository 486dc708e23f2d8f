"""Reductions: the start of a sum, and its parts."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import matmul, matmul_biased, matmul_scaled, row_sum, window_sum
from mlcnb.tir.schedule import Schedule


@primitive
def decompose_reduction() -> Iterator[Schedule]:
    """Sets the results to their first value in a block of its own, before the given loop."""
    sch = Schedule(matmul(3, 3, 3))
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    yield sch
    sch.decompose_reduction("C", k)
    yield sch
    other = Schedule(row_sum(4, 8))
    i, k = other.get_loops("B")
    other.reorder(k, i)
    other.decompose_reduction("B", i)


@primitive
def rfactor() -> Iterator[Schedule]:
    """Computes parts of a sum side by side, and adds the parts in a second block."""
    sch = Schedule(row_sum(3, 8))
    i, k = sch.get_loops("B")
    k_0, k_1 = sch.split(k, [None, 4])
    yield sch
    sch.rfactor(k_1, 0)
    yield sch
    other = Schedule(row_sum(3, 8))
    other.rfactor(other.get_loops("B")[0], 0)


@primitive
def fuse_reduction_epilogue() -> Iterator[Schedule]:
    """Lets a sum start from what is added to it afterwards; the block that added it goes away."""
    sch = Schedule(matmul_biased(3))
    yield sch
    sch.fuse_reduction_epilogue("C", "D")
    yield sch
    other = Schedule(matmul_scaled(3))
    other.fuse_reduction_epilogue("C", "D")


@primitive
def winograd() -> Iterator[Schedule]:
    """Computes a convolution tile by tile, by 4 x 4 products in place of 36 for 2 x 2 results."""
    sch = Schedule(window_sum(2))
    yield sch
    sch.winograd("Y", 2)
    yield sch
    Schedule(window_sum(2, stride=2)).winograd("Y", 2)
