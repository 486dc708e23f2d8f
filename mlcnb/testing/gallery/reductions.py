"""Reductions: the start of a sum, and its parts."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import double_2d, matmul, row_sum
from mlcnb.tir.schedule import Schedule


@primitive("Sets the results to their first value in a block of its own, before the given loop.")
def decompose_reduction() -> Iterator[Schedule]:
    sch = Schedule(matmul(3, 3, 3))
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    yield sch
    sch.decompose_reduction("C", k)
    yield sch
    sch.decompose_reduction("C", k)


@primitive("Computes parts of a sum side by side, and adds the parts in a second block.")
def rfactor() -> Iterator[Schedule]:
    sch = Schedule(row_sum(3, 8))
    i, k = sch.get_loops("B")
    k_0, k_1 = sch.split(k, [None, 4])
    yield sch
    sch.rfactor(k_1, 0)
    yield sch
    sch.rfactor(i, 0)
