"""Loops: cut, joined, reordered, and marked with how they run."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import (
    chain,
    diagonal,
    double,
    double_2d,
    matmul,
    reversed_chain,
    row_sum,
    running_sum,
)
from mlcnb.tir.schedule import Schedule


@primitive
def split() -> Iterator[Schedule]:
    """Cuts a loop into two or more, which together count as far; None is whatever is left."""
    sch = Schedule(double(14))
    (i,) = sch.get_loops("B")
    yield sch
    i_0, i_1 = sch.split(i, [None, 4])
    yield sch
    sch.split(i_1, [3, 1])


@primitive
def fuse() -> Iterator[Schedule]:
    """Joins loops that stand directly inside each other into one."""
    sch = Schedule(double_2d(4, 4))
    i, j = sch.get_loops("B")
    yield sch
    sch.fuse(i, j)
    yield sch
    other = Schedule(chain(8))
    other.fuse(*other.get_loops("B"), *other.get_loops("C"))


@primitive
def reorder() -> Iterator[Schedule]:
    """Changes which loop stands inside which."""
    sch = Schedule(matmul(3, 4, 3))
    i, j, k = sch.get_loops("C")
    yield sch
    sch.reorder(i, k, j)
    yield sch
    other = Schedule(diagonal(4))
    i, j = other.get_loops("A")
    other.reorder(j, i)


@primitive
def loop_partition() -> Iterator[Schedule]:
    """Cuts the range of a loop into parts, each a loop of its own with its own copy of the body."""
    sch = Schedule(double(14))
    (i,) = sch.get_loops("B")
    yield sch
    sch.loop_partition(i, [2, None, 4])
    yield sch
    other = Schedule(double(14))
    other.loop_partition(other.get_loops("B")[0], [10, 10])


@primitive
def merge() -> Iterator[Schedule]:
    """Makes one loop of two that stand one after the other; their bodies take turns."""
    sch = Schedule(chain(8))
    (i,) = sch.get_loops("B")
    (j,) = sch.get_loops("C")
    yield sch
    sch.merge(i, j)
    yield sch
    other = Schedule(reversed_chain(8))
    other.merge(*other.get_loops("B"), *other.get_loops("C"))


@primitive
def add_unit_loop() -> Iterator[Schedule]:
    """Puts a loop of one iteration around a block or a loop: a place for others to go to."""
    sch = Schedule(double(8))
    (i,) = sch.get_loops("B")
    yield sch
    sch.add_unit_loop(i)
    yield sch
    sch.add_unit_loop("D")


@primitive
def parallel() -> Iterator[Schedule]:
    """Runs the iterations of a loop on several threads: each number is a thread's own step."""
    sch = Schedule(row_sum(4, 4))
    i, k = sch.get_loops("B")
    yield sch
    sch.parallel(i)
    yield sch
    sch.parallel(k)


@primitive
def vectorize() -> Iterator[Schedule]:
    """Does all iterations of a loop in one instruction: equal numbers are one step."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    yield sch
    sch.vectorize(j)
    yield sch
    other = Schedule(running_sum(8))
    other.vectorize(*other.get_loops("B"))


@primitive
def unroll() -> Iterator[Schedule]:
    """Writes the iterations of a loop out one after the other, when the program is lowered."""
    sch = Schedule(double_2d(4, 4))
    i, j = sch.get_loops("B")
    yield sch
    sch.unroll(j)
    yield sch
    sch.unroll("B")


@primitive
def bind() -> Iterator[Schedule]:
    """Gives the iterations of a loop to the blocks or threads of a GPU."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    yield sch
    sch.bind(j, "threadIdx.x")
    yield sch
    sch.bind(j, "blockIdx.x")
