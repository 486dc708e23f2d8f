"""Predicted misses beside those of a cache that is simulated touch by touch."""

from __future__ import annotations

from itertools import permutations

import pytest

from mlcnb.machine.prediction import footprints, predict
from mlcnb.observe.access import replayed
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import copy_2d, matmul, matmul_relu, softmax

#: caches that programs of a few thousand accesses overflow
CACHES = "1K/8way, 8K/8way, 32K/8way"


class Machine(Target):
    """A target with few cores and small caches."""

    caches = (1 << 10, 1 << 13, 1 << 15)
    num_cores = 2


MACHINE = Machine("llvm -mcpu=x86-64-v4")


def simulated(func):
    """Misses of each level, counted access by access."""
    counts = replayed(func, CACHES).counts
    return [counts[name].misses for name in ("L1", "L2", "L3")]


def orders(n):
    for order in permutations(range(3)):
        sch = Schedule(matmul(n, n, n))
        loops = sch.get_loops("C")
        sch.reorder(*(loops[x] for x in order))
        yield f"order {order}", sch.mod["main"]


def tiled(n, tile, fused=False):
    sch = Schedule(matmul(n, n, n))
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(x, [None, tile]) for x in (i, j, k))
    sch.reorder(i0, j0, k0, i1, k1, j1)
    if fused:
        sch.fuse(i1, k1)
    return sch.mod["main"]


PROGRAMS = {
    **dict(orders(40)),
    "tiles of 4": tiled(40, 4),
    "tiles of 8": tiled(40, 8),
    "tiles of 8, fused": tiled(40, 8, fused=True),
    "tiles of 20": tiled(40, 20),
    "two blocks": matmul_relu(40, 40, 40),
    "copy": copy_2d(64, 48),
    "softmax": softmax(),
}


def near(found, real, most):
    """Whether a prediction is within a factor of what was counted."""
    return real / most <= found <= real * most


@pytest.mark.parametrize("name", PROGRAMS)
def test_misses_are_those_of_a_simulated_cache(name):
    """Every level within a quarter; caches of 16 lines are all edge."""
    func = PROGRAMS[name]
    found, real = predict(func, MACHINE, CACHES).misses, simulated(func)
    print(f"\n{name}: predicted {found}, simulated {real}")
    assert all(near(mine, truth, 1.25) for mine, truth in zip(found, real, strict=True))


def test_a_stride_that_is_a_power_of_two_shares_sets():
    """16 rows of 1 KiB: one column lies in one set of a cache with 16 sets of 8 lines."""
    func = Schedule(copy_2d(16, 256))
    i, j = func.get_loops("B")
    func.reorder(j, i)
    found, real = predict(func.mod["main"], MACHINE, CACHES), simulated(func.mod["main"])
    assert found.misses[1] == pytest.approx(real[1], rel=0.01)
    assert real[1] == 2 * 16 * 256, "every touch misses, though a column has only 16 lines"


def test_vectors_and_tasks_are_those_of_the_program():
    sch = Schedule(matmul(64, 64, 64))
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    plain = predict(sch.mod["main"], MACHINE)
    sch.vectorize(j1)
    sch.parallel(i)
    found = predict(sch.mod["main"], MACHINE)
    assert (plain.lanes, plain.tasks) == (1, 1)
    assert (found.lanes, found.tasks, found.strided) == (16, 64, ())
    assert found.misses == plain.misses and found.cycles < plain.cycles
    assert repr(found) == (
        f"predicted: misses L1 {found.misses[0]:,}, L2 {found.misses[1]:,}, L3 "
        f"{found.misses[2]:,}; 16 lanes; 64 tasks"
    )


def test_vectors_that_gather_say_so():
    sch = Schedule(matmul(16, 16, 16))
    i, j, k = sch.get_loops("C")
    sch.reorder(k, j, i)
    sch.vectorize(i)
    assert predict(sch.mod["main"], MACHINE).strided == ("C", "A")


def test_threads_of_a_gpu():
    sch = Schedule(copy_2d(64, 32))
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    found = predict(sch.mod["main"], MACHINE)
    assert (found.blocks, found.threads) == (64, 32)
    assert repr(found).endswith("64 blocks of 32 threads")


@T.prim_func
def gather(
    A: T.Buffer((64,), "float32"), at: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")
):
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[at[v]]


@T.prim_func
def any_size(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v]


def test_what_is_not_known_is_guessed():
    assert predict(gather, MACHINE).misses[0] == 12, "all of each of three buffers"
    assert predict(any_size, MACHINE).misses[0] == 8, "64 elements of each"


def test_what_a_loop_touches():
    func = matmul(32, 32, 32)
    found = {var.name: size for var, size in footprints(func).items()}
    assert found == {"i": 3 * 4096, "j": 128 + 4096 + 128, "k": 128 + 32 * 64 + 64}


def test_parts_of_one_array_add_up_where_they_lie_apart():
    """Two halves of a sum touch different columns; an element read and written is one."""
    sch = Schedule(matmul(40, 40, 40))
    i, j, k = sch.get_loops("C")
    sch.loop_partition(k, [20, None])
    found, real = predict(sch.mod["main"], MACHINE, CACHES), simulated(sch.mod["main"])
    assert found.misses[0] == pytest.approx(real[0], rel=0.05)


def test_fewer_places_say_much_the_same():
    func = matmul(96, 96, 96)
    found, exact = predict(func, MACHINE, CACHES, coarse=4), predict(func, MACHINE, CACHES)
    assert found.misses == pytest.approx(exact.misses, rel=0.3)
    small = matmul(8, 8, 8)
    assert predict(small, MACHINE, CACHES, coarse=4) == predict(small, MACHINE, CACHES)
