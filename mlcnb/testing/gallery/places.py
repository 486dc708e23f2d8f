"""Places: where a block is computed."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import blur, chain, chain_2d, matmul_shifted, row_sum
from mlcnb.tir.schedule import Schedule


@primitive
def compute_at() -> Iterator[Schedule]:
    """Moves a producer into a loop of its consumer: there, just what is needed is computed."""
    sch = Schedule(chain_2d(4, 4))
    i, j = sch.get_loops("C")
    yield sch
    sch.compute_at("B", i)
    yield sch
    sch.compute_at("C", j)


@primitive
def reverse_compute_at() -> Iterator[Schedule]:
    """Moves a consumer into a loop of its producer: each part is used as soon as it is made."""
    sch = Schedule(matmul_shifted(3))
    i, j, k = sch.get_loops("C")
    yield sch
    sch.reverse_compute_at("D", i)
    yield sch
    other = Schedule(matmul_shifted(3))
    other.reverse_compute_at("D", other.fuse(*other.get_loops("C")))


@primitive
def compute_inline() -> Iterator[Schedule]:
    """Computes a producer where it is used; its buffer goes away."""
    sch = Schedule(blur(6))
    yield sch
    sch.compute_inline("B")
    yield sch
    Schedule(row_sum(4, 4)).compute_inline("B")


@primitive
def reverse_compute_inline() -> Iterator[Schedule]:
    """Computes a consumer where its operand is made; the operand's buffer goes away."""
    sch = Schedule(chain(8))
    yield sch
    sch.reverse_compute_inline("C")
    yield sch
    Schedule(blur(6)).reverse_compute_inline("C")


@primitive
def rolling_buffer() -> Iterator[Schedule]:
    """Keeps what overlapping tiles share in a buffer as long as one tile, and makes it once."""
    sch = Schedule(blur(8))
    (i,) = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    sch.compute_at("B", i_0)
    yield sch
    sch.rolling_buffer("B", 0)
    yield sch
    Schedule(blur(8)).rolling_buffer("B", 0)
