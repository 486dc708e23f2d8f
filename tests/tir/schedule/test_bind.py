"""bind: threads that share a reduction, what they may not share, marks that later steps keep."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform import lower
from tests.tir.schedule.programs import becomes, copy_2d, matmul, numbers, refuses, row_sum

REDUCTION = "rfactor the loop first, or choose a spatial loop"


def same_on_threads(sch):
    """On simulated threads, in block form and lowered, the numbers are those of the loops."""
    before = numbers(sch.steps[0].mod["main"])
    func = sch.mod["main"]
    for version in (func, lower(func)):
        args = [x.copy() for x in before]
        args[-1][...] = np.nan
        run_prim_func(version, args, simulate=True, order=1)
        for x, y in zip(before, args, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-5)


def test_threads_share_a_reduction():
    sch = Schedule(row_sum())
    i, k = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    becomes(
        sch,
        """
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    v_i, v_k = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[v_i] = T.float32(0.0)
                    B[v_i] = B[v_i] + A[v_i, v_k]
        """,
    )
    same_on_threads(sch)


@pytest.mark.parametrize("order", ["before", "after"])
def test_serial_steps_before_or_after_those_of_the_threads(order):
    sch = Schedule(row_sum(4, 24))
    i, k = sch.get_loops("B")
    k0, k1 = sch.split(k, [None, 4] if order == "before" else [4, None])
    sch.bind(i, "threadIdx.y")
    sch.bind(k1 if order == "before" else k0, "threadIdx.x")
    same_on_threads(sch)


def test_two_axes_share_a_reduction():
    sch = Schedule(matmul(2, 3, 12))
    i, j, k = sch.get_loops("C")
    k0, k1, k2 = sch.split(k, [2, 2, 3])
    sch.bind(sch.fuse(i, j), "blockIdx.x")
    sch.bind(k0, "threadIdx.y")
    sch.bind(k1, "threadIdx.x")
    same_on_threads(sch)


def test_a_step_that_ends_within_the_tile():
    sch = Schedule(row_sum(3, 10))
    i, k = sch.get_loops("B")
    _, k1 = sch.split(k, [None, 4])
    sch.bind(i, "blockIdx.x")
    sch.bind(k1, "threadIdx.x")
    same_on_threads(sch)


@pytest.mark.parametrize("reducer", [te.max, te.min])
def test_extremes(reducer):
    A, k = te.placeholder((3, 8), name="A"), te.reduce_axis((0, 8), name="k")
    B = te.compute((3,), lambda i: reducer(A[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    sch.bind(sch.get_loops("B")[1], "threadIdx.x")
    same_on_threads(sch)


@pytest.mark.parametrize("axis", ["blockIdx.x", "vthread.x"])
def test_blocks_and_virtual_threads_do_not_combine(axis):
    sch = Schedule(row_sum())
    k = sch.get_loops("B")[1]
    message = (
        "bind: loop k is not parallel: it runs over the reduce axis v_k of block B: its iterations "
        "update the same elements of B"
    )
    with refuses(sch, message, REDUCTION):
        sch.bind(k, axis)


def test_a_recurrence_is_no_reduction():
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), name="k")
    last = te.comm_reducer(lambda x, y: x * p.const(0.5) + y, lambda kind: p.const(0, kind))
    B = te.compute((1,), lambda i: last(A[k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    message = (
        "bind: loop k is not parallel: it runs over the reduce axis v_k of block B: its iterations "
        "update the same elements of B"
    )
    loop = sch.get_loops("B")[1]
    with refuses(sch, message, REDUCTION):
        sch.bind(loop, "threadIdx.x")


def test_a_shared_reduction_stays_one():
    sch = Schedule(row_sum())
    i, k = sch.get_loops("B")
    sch.bind(k, "threadIdx.x")
    before = sch.mod
    with pytest.raises(Exception, match="loop k"):
        sch.decompose_reduction("B", k)
    assert sch.mod is before
    same_on_threads(sch)


def test_more_threads_than_a_block_can_have():
    sch = Schedule(copy_2d(2, 2048))
    j = sch.get_loops("B")[1]
    with refuses(
        sch,
        "bind: loop j has 2048 iterations, a block has at most 1024 threads",
        "split it, and bind the outer loop to blockIdx, the inner one to threadIdx",
    ):
        sch.bind(j, "threadIdx.x")
    sch.bind(j, "blockIdx.x")


# memory that threads share ------------------------------------------------------------------------

TURNS = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        S = T.alloc_buffer((1,), scope="{scope}")
        for i in range(8):
            with T.block("S"):
                vi = T.axis.spatial(8, i)
                S[0] = A[vi]
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = S[0]
"""


def turns(scope):
    return Schedule(parse(dedent(TURNS.format(scope=scope))))


def test_shared_memory_is_one_for_the_threads_of_a_block():
    """Each iteration fills S before it reads it: blocks have one each, threads have not."""
    sch = turns("shared")
    message = (
        "bind: loop i is not parallel: its iterations may touch the same elements of S, which "
        "block S writes"
    )
    loop = sch.get_loops("B")[0]
    with refuses(sch, message):
        sch.bind(loop, "threadIdx.x")
    sch.bind(loop, "blockIdx.x")
    same_on_threads(sch)


def test_memory_of_a_thread_does_not_become_shared():
    sch = turns("local")
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    message = (
        "set_scope: loop i is thread_binding, and then its iterations may touch the same elements "
        "of S, which block S writes"
    )
    with refuses(
        sch, message, "mark loops as parallel, vectorized or bound after they have their blocks"
    ):
        sch.set_scope("S", 0, "shared")


FETCH = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 8), "float32")):
        S = T.alloc_buffer((8,), scope="shared")
        for i in T.thread_binding(8, thread="{outer}"):
            for j in range(8):
                with T.block("S"):
                    v = T.axis.spatial(8, j)
                    S[v] = A[v]
            for j in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = S[vj]
"""


def fetched(outer):
    return Schedule(parse(dedent(FETCH.format(outer=outer))))


def test_threads_fetch_together():
    sch = fetched("threadIdx.x")
    sch.bind(sch.get_loops("S")[1], "threadIdx.x")
    same_on_threads(sch)


def test_what_threads_fetch_together_stays_shared():
    sch = fetched("threadIdx.x")
    sch.bind(sch.get_loops("S")[1], "threadIdx.x")
    message = (
        "set_scope: loop j is thread_binding, and then loop j runs on the threads of loop i, and "
        "block S writes S, which is not in shared memory"
    )
    with refuses(
        sch, message, "mark loops as parallel, vectorized or bound after they have their blocks"
    ):
        sch.set_scope("S", 0, "local")


def test_blocks_fetch_nothing_together():
    sch = fetched("blockIdx.x")
    loop = sch.get_loops("S")[1]
    with refuses(
        sch,
        "bind: loop j stands in loop i, which is bound to blockIdx.x already",
        "fuse the two loops, or use another axis",
    ):
        sch.bind(loop, "blockIdx.x")


def test_a_loop_around_one_that_is_bound():
    sch = Schedule(copy_2d(4, 4))
    i, j = sch.get_loops("B")
    sch.bind(j, "threadIdx.x")
    with refuses(
        sch,
        "bind: loop i holds loop j, which is bound to threadIdx.x already",
        "fuse the two loops, or use another axis",
    ):
        sch.bind(i, "threadIdx.x")


def test_each_thread_has_a_reduction_of_its_own():
    """Threads that all add up the same sum in shared memory would race."""
    A, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    C = te.compute((4,), lambda i: B[0] + A[i], name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    loop = sch.get_loops("C")[0]
    sch.compute_at("B", loop)
    sch.set_scope("B", 0, "local")
    sch.bind(loop, "threadIdx.x")
    same_on_threads(sch)
    with pytest.raises(Exception, match="loop i is thread_binding, and then its iterations may"):
        sch.set_scope("B", 0, "shared")


# where a store tells its iteration ----------------------------------------------------------------


def tiles_of(index: str, extent: int) -> Schedule:
    """Tiles of a flat loop, stored by its digits: boxes that overlap, elements that do not."""
    func = parse(
        dedent(f"""
        @T.prim_func
        def main(A: T.Buffer((21,), "float32"), B: T.Buffer((3, 7), "float32")):
            for t, r in T.grid(6, {extent}):
                with T.block("B"):
                    f = T.axis.spatial(21, t * 4 + r)
                    T.where(t * 4 + r < 21)
                    B[{index}] = A[f] * T.float32(2)
    """)
    )
    return Schedule(func, check="rules")


def test_tiles_that_are_stored_by_the_digits_of_a_number_are_apart_by_rule():
    sch = tiles_of("f // 7, f % 7", 4)
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    assert sch.steps[-1].proof == "by rule"
    same_on_threads(sch)


@pytest.mark.parametrize("index, extent", [
    ("f // 7, f % 6", 4),  # two numbers have the same digits
    ("f // 7, 0", 4),
    ("f // 7, f % 7", 5),  # tiles that overlap: the fifth of one is the first of the next
])  # fmt: skip
def test_tiles_that_meet_are_refused(index, extent):
    sch = tiles_of(index, extent)
    loop = sch.get_loops("B")[0]
    with refuses(
        sch, "bind: loop t is not parallel: its iterations may touch the same elements of B, "
        "which block B writes",
    ):  # fmt: skip
        sch.bind(loop, "threadIdx.x")


def used_by_two(read: str, extents: str = "6, 4", inner: str = "t * 4 + r") -> Schedule:
    """Tiles of a flat loop: a block stores an element by its digits, the next one reads `read`."""
    func = parse(
        dedent(f"""
        @T.prim_func
        def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32")):
            S = T.alloc_buffer((4, 7), scope="shared")
            for t, r in T.grid({extents}):
                with T.block("S"):
                    f = T.axis.spatial(24, {inner})
                    T.where({inner} < 24)
                    S[f // 7, f % 7] = A[f] * T.float32(2)
                with T.block("C"):
                    f = T.axis.spatial(24, {inner})
                    T.where({inner} < 24)
                    C[f] = {read} + T.float32(1)
    """)
    )
    return Schedule(func, check="rules")


def test_two_blocks_at_one_place_that_tells_the_iteration_are_apart_by_rule():
    sch = used_by_two("S[f // 7, f % 7]")
    sch.bind(sch.get_loops("S")[0], "threadIdx.x")
    assert sch.steps[-1].proof == "by rule"
    same_on_threads(sch)


@pytest.mark.parametrize("read, extents, inner", [
    ("S[f // 8, f % 7]", "6, 4", "t * 4 + r"),  # at another place than it was stored
    ("S[0, f % 7]", "6, 4", "t * 4 + r"),
    ("S[f // 7, f % 7]", "6, 5", "t * 4 + r"),  # tiles that overlap
])  # fmt: skip
def test_two_blocks_that_may_meet_are_refused(read, extents, inner):
    sch = used_by_two(read, extents, inner)
    loop = sch.get_loops("S")[0]
    with pytest.raises(Exception, match="its iterations may touch the same elements of S"):
        sch.bind(loop, "threadIdx.x")
