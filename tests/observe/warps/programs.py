"""Programs for a GPU: a transpose and a product through shared memory, a copy by vectors."""

from __future__ import annotations

from mlcnb import te
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import LoopRV, Schedule


def of(sch: Schedule) -> PrimFunc:
    """The one function of a schedule."""
    (func,) = sch.mod.functions.values()
    return func


def transposed(n: int, pad: bool, tiled: bool = True) -> PrimFunc:
    """The transpose; not `tiled`: each thread copies one element, a warp down a column."""
    if tiled:
        return of(schedule_of_transpose(n, pad))
    A = te.placeholder((n, n), name="A")
    sch = Schedule(te.create_prim_func([A, te.compute((n, n), lambda i, j: A[j, i], name="B")]))
    i, j = sch.get_loops("B")
    (i0, i1), (j0, j1) = sch.split(i, [None, 32]), sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1)
    _bind(sch, (j0, "blockIdx.y"), (i0, "blockIdx.x"), (j1, "threadIdx.y"), (i1, "threadIdx.x"))
    return of(sch)


def _bind(sch: Schedule, *pairs: tuple[LoopRV, str]) -> None:
    for loop, axis in pairs:
        sch.bind(loop, axis)


def schedule_of_transpose(n: int, pad: bool) -> Schedule:
    """B[i, j] = A[j, i] by tiles of 32 x 32 and blocks of (32, 8); `pad`: rows of 33."""
    A = te.placeholder((n, n), name="A")
    sch = Schedule(te.create_prim_func([A, te.compute((n, n), lambda i, j: A[j, i], name="B")]))
    b = sch.get_block("B")
    j, i = sch.get_loops(b)
    (j0, j1), (i0, i1) = sch.split(j, [None, 32]), sch.split(i, [None, 32])
    shared = sch.cache_read(b, 0, "shared")
    sch.reorder(j0, i0, j1, i1)
    sch.compute_at(shared, i0)
    rows, y = sch.split(j1, [None, 8])
    _bind(sch, (j0, "blockIdx.y"), (i0, "blockIdx.x"), (y, "threadIdx.y"), (i1, "threadIdx.x"))
    row, column = sch.get_loops(shared)[-2:]
    sch.bind(sch.split(row, [None, 8])[1], "threadIdx.y")
    sch.bind(column, "threadIdx.x")
    if pad:
        sch.storage_align(shared, 0, 0, 32, 1)
    return sch


def copied(n: int, width: int) -> PrimFunc:
    """B[i] = A[i], so many floats in each access."""
    A = te.placeholder((n,), name="A")
    sch = Schedule(te.create_prim_func([A, te.compute((n,), lambda i: A[i], name="B")]))
    block, thread, lane = sch.split(sch.get_loops("B")[0], [None, 32, width])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
    return of(sch)


def product(n: int, tile: int) -> PrimFunc:
    """A product by tiles, both factors through shared memory."""
    sch = Schedule(matmul(n, n, n))
    block = sch.get_block("C")
    factors = [sch.cache_read(block, number, "shared") for number in (0, 1)]
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, tile]) for loop in (i, j, k))
    sch.reorder(i0, j0, i1, j1, k0, k1)
    _bind(sch, (i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x"))
    for factor in factors:
        sch.compute_at(factor, k0)
        y, x = sch.get_loops(factor)[-2:]
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    return of(sch)
