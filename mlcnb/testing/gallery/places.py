"""Places: where a block is computed."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import blur, chain, chain_2d, matmul_shifted, row_sum
from mlcnb.tir.schedule import Schedule


@primitive("Moves a producer into a loop of its consumer: there, just what is needed is computed.")
def compute_at() -> Iterator[Schedule]:
    sch = Schedule(chain_2d(4, 4))
    i, j = sch.get_loops("C")
    yield sch
    sch.compute_at("B", i)
    yield sch
    sch.compute_at("C", i)


@primitive("Moves a consumer into a loop of its producer: each part is used as soon as it is made.")
def reverse_compute_at() -> Iterator[Schedule]:
    sch = Schedule(matmul_shifted(3))
    i, j, k = sch.get_loops("C")
    yield sch
    sch.reverse_compute_at("D", i)
    yield sch
    sch.reverse_compute_at("D", k)


@primitive("Computes a producer where it is used; its buffer goes away.")
def compute_inline() -> Iterator[Schedule]:
    sch = Schedule(blur(6))
    yield sch
    sch.compute_inline("B")
    yield sch
    Schedule(row_sum(4, 4)).compute_inline("B")


@primitive("Computes a consumer where its operand is made; the operand's buffer goes away.")
def reverse_compute_inline() -> Iterator[Schedule]:
    sch = Schedule(chain(8))
    yield sch
    sch.reverse_compute_inline("C")
    yield sch
    Schedule(blur(6)).reverse_compute_inline("C")
