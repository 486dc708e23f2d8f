"""Draws: decisions left to chance, which the trace keeps and a search can change."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import chain_2d, double
from mlcnb.tir.schedule import Schedule


@primitive
def sample_categorical() -> Iterator[Schedule]:
    """Draws one of several values; `seed` makes it the same each time."""
    sch = Schedule(double(16), seed=3)
    (i,) = sch.get_loops("B")
    yield sch
    width = sch.sample_categorical([2, 4, 8], [0.2, 0.4, 0.4])
    sch.split(i, [None, width])
    yield sch
    sch.sample_categorical([2, 4, 8], [0.5, 0.5])


@primitive
def sample_perfect_tile() -> Iterator[Schedule]:
    """Draws factors whose product is the extent of a loop."""
    sch = Schedule(double(24), seed=2)
    (i,) = sch.get_loops("B")
    yield sch
    factors = sch.sample_perfect_tile(i, n=3, max_innermost_factor=4)
    sch.split(i, factors)
    yield sch
    sch.sample_perfect_tile(sch.get_loops("B")[0], n=3, decision=[2, 2])


@primitive
def sample_partitioned_tile() -> Iterator[Schedule]:
    """Draws factors of which the inner ones make up a given part of the loop."""
    sch = Schedule(double(24), seed=2)
    (i,) = sch.get_loops("B")
    yield sch
    factors = sch.sample_partitioned_tile(i, n=3, partition_pos=2, innerpart_factor=4)
    sch.split(i, factors)
    yield sch
    sch.sample_partitioned_tile(sch.get_loops("B")[0], n=2, innerpart_factor=5)


@primitive
def sample_compute_location() -> Iterator[Schedule]:
    """Draws a loop of the consumers that a producer may be moved to."""
    sch = Schedule(chain_2d(4, 4), seed=4)
    yield sch
    place = sch.sample_compute_location("B")
    sch.compute_at("B", place)
    yield sch
    sch.sample_compute_location(sch.get_loops("C")[0])
