"""Predicted misses beside those of a cache that is simulated touch by touch."""

from __future__ import annotations

from collections import OrderedDict
from itertools import permutations

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.machine.locality import Steps, progressions
from mlcnb.machine.prediction import LINE, WAYS, footprints, predict
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import copy_2d, matmul, matmul_relu, softmax

SIZES = (1 << 10, 1 << 13, 1 << 15)


class Machine(Target):
    """A target with small caches."""

    caches = SIZES
    num_cores = 2


MACHINE = Machine("llvm -mcpu=x86-64-v4")


def simulated(func, size):
    """Misses of one set-associative cache, least recently used lines first."""
    base, lines, touched = 0, {}, []
    for buffer in func.buffers:
        lines[buffer.name] = base
        base += -(-int(np.prod([int(x) for x in buffer.shape])) * 4 // LINE)

    def record(name, index, _kind, _loops):
        if name not in lines:
            lines[name] = (len(lines) + 1) << 16
        touched.append(lines[name] + index * 4 // LINE)

    arrays = [np.zeros([int(x) for x in b.shape], "float32") for b in func.buffers]
    run_prim_func(func, arrays, record=record)
    sets = [OrderedDict() for _ in range(size // LINE // WAYS)]
    misses = 0
    for line in touched:
        found = sets[line % len(sets)]
        if line not in found:
            misses += 1
            found[line] = True
            if len(found) > WAYS:
                found.popitem(last=False)
        found.move_to_end(line)
    return misses


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


@pytest.mark.parametrize("name", PROGRAMS)
def test_misses_are_those_of_a_simulated_cache(name):
    """L1 and L3 within a quarter; where a program is on the edge of L2, within a factor of 4."""
    func = PROGRAMS[name]
    found = predict(func, MACHINE).misses
    real = [simulated(func, size) for size in SIZES]
    print(f"\n{name}: predicted {found}, simulated {real}")
    assert found[0] == pytest.approx(real[0], rel=0.25)
    assert found[2] == pytest.approx(real[2], rel=0.25)
    assert real[1] / 4 <= found[1] <= real[1] * 4


def test_the_order_of_programs_is_that_of_the_simulation():
    """What a reader asks: which of two is better."""
    found = {name: predict(f, MACHINE).misses[0] for name, f in PROGRAMS.items()}
    real = {name: simulated(f, SIZES[0]) for name, f in PROGRAMS.items()}
    for a in PROGRAMS:
        for b in PROGRAMS:
            if real[a] > 1.5 * real[b]:
                assert found[a] > found[b], (a, b)


def test_a_stride_that_is_a_power_of_two_shares_sets():
    """16 rows of 1 KiB: one column lies in one set of a cache with 16 sets of 8 lines."""
    func = Schedule(copy_2d(16, 256))
    i, j = func.get_loops("B")
    func.reorder(j, i)
    found, real = predict(func.mod["main"], MACHINE), simulated(func.mod["main"], SIZES[1])
    assert found.misses[1] == pytest.approx(real, rel=0.25)
    assert real == 2 * 16 * 256, "every touch misses, though a column has only 16 lines"


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
    found = {loop.loop_var.name: size for loop, size in footprints(func).items()}
    assert found == {"i": 3 * 4096, "j": 128 + 4096 + 128, "k": 128 + 32 * 64 + 64}


def test_places_as_strides():
    fused = np.array([a * 64 + b * 4 for a in range(3) for b in range(5)])
    assert progressions(fused) == [Steps(4, 5), Steps(64, 3)]
    assert progressions(np.array([0])) == []
    assert progressions(np.array([0, 8, 12])) == [Steps(6, 3)]


def test_parts_of_one_array_add_up_where_they_lie_apart():
    """Two halves of a sum touch different columns; an element read and written is one."""
    sch = Schedule(matmul(40, 40, 40))
    i, j, k = sch.get_loops("C")
    sch.loop_partition(k, [20, None])
    found, real = predict(sch.mod["main"], MACHINE), simulated(sch.mod["main"], SIZES[0])
    assert found.misses[0] == pytest.approx(real, rel=0.25)
