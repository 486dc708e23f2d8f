"""parallel, vectorize, unroll, bind: whole programs, and loops that carry a dependence."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import compile, te
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.script import parse
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.proof import backwards
from mlcnb.tir.transform import lower
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    numbers,
    refuses,
    replays,
    softmax,
    stencil,
    symbolic_matmul_relu,
    text,
    two_consumers,
)


def test_kinds():
    sch = Schedule(matmul())
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.parallel(i)
    sch.vectorize(j)
    sch.unroll(k)
    becomes(
        sch,
        """
        for i in T.parallel(4):
            for k in T.unroll(4):
                for j in T.vectorized(4):
                    with T.block("C"):
                        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            C[v_i, v_j] = T.float32(0.0)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_thread_axes():
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    becomes(
        sch,
        """
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_fused_loop_is_parallel():
    sch = Schedule(matmul(4, 6, 2))
    i, j, _k = sch.get_loops("C")
    sch.parallel(sch.fuse(i, j))
    becomes(
        sch,
        """
        for i_j_fused in T.parallel(24):
            for k in range(2):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i_j_fused // 6)
                    v_j = T.axis.spatial(6, i_j_fused % 6)
                    v_k = T.axis.reduce(2, k)
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_each_iteration_has_its_own_intermediate():
    sch = Schedule(stencil())
    (i,) = sch.get_loops("C")
    i0, _i1 = sch.split(i, [3, 4])
    sch.compute_at("B", i0)
    sch.parallel(i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((14,))
        for i_0 in T.parallel(3):
            for ax0 in range(6):
                with T.block("B"):
                    v_i = T.axis.spatial(14, i_0 * 4 + ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(12, i_0 * 4 + i_1)
                    C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]
        """,
    )


@pytest.mark.parametrize("step", ["parallel", "vectorize"])
def test_refuses_a_reduction_loop(step):
    sch = Schedule(matmul())
    k = sch.get_loops("C")[2]
    message = (
        f"{step}: loop k is not parallel: it runs over the reduce axis v_k of block C: "
        "its iterations update the same elements of C"
    )
    hint = "rfactor the loop first, or choose a spatial loop"
    with refuses(sch, message, hint):
        getattr(sch, step)(k)


def test_update_after_decompose_is_still_parallel_in_space():
    sch = Schedule(matmul())
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.decompose_reduction("C", k)
    sch.vectorize(j)
    with refuses(
        sch,
        "parallel: loop k is not parallel: it runs over the reduce axis v_k of block "
        "C_update: its iterations update the same elements of C",
        hint="rfactor the loop first, or choose a spatial loop",
    ):
        sch.parallel(k)
    becomes(
        sch,
        """
        for i in range(4):
            for j_init in range(4):
                with T.block("C_init"):
                    v_i, v_j = T.axis.remap("SS", [i, j_init])
                    C[v_i, v_j] = T.float32(0.0)
            for k in range(4):
                for j in T.vectorized(4):
                    with T.block("C_update"):
                        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


ROWS = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((8,))
    for i in range(4):
        for j in range(8):
            with T.block("S"):
                u = T.axis.spatial(4, {row})
                v = T.axis.spatial(8, j)
                S[v] = A[u, v]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[vj] + A[vi, vj]
"""


def test_refuses_lanes_that_fill_an_intermediate_with_other_values():
    sch = Schedule(parse(ROWS.format(row="i")))
    loop = sch.get_loops("B")[0]
    with refuses(
        sch,
        "vectorize: loop i is not parallel: its iterations may touch the same elements "
        "of S, which block S writes",
    ):
        sch.vectorize(loop)


@pytest.mark.parametrize("name", ["row", "stencil"])
def test_lanes_that_fill_an_intermediate_alike(name):
    """All fill it with the same, as threads that fetch do: nobody reads what another one meant."""
    sch = Schedule(parse(ROWS.format(row="0")) if name == "row" else stencil())
    loop = sch.get_loops("B" if name == "row" else "C")[0]
    if name == "stencil":
        sch.compute_at("B", loop)
    sch.vectorize(loop)
    func, before = sch.mod["main"], numbers(sch.steps[0].mod["main"])
    for run in (numbers, lambda f: numbers(backwards(f)), lambda f: numbers(lower(f))):
        for x, y in zip(before, run(func), strict=True):
            np.testing.assert_array_equal(y, x)
    args = [*before[:-1], np.full_like(before[-1], np.nan)]
    compile(func, target="llvm")(*args)
    np.testing.assert_allclose(args[-1], before[-1], rtol=1e-6)


def test_refuses_a_symbolic_number_of_lanes():
    n = Var("n", dtype("int64"))
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    (i,) = sch.get_loops("B")
    with refuses(
        sch,
        "vectorize: loop i has n iterations, not a fixed number",
        hint="split it by the number of lanes and vectorize the inner loop",
    ):
        sch.vectorize(i)


def test_refuses_unknown_and_nested_thread_axes():
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    with refuses(
        sch,
        "bind: 'threadIdx.q' is no thread axis",
        hint="one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, "
        "threadIdx.z, vthread, vthread.x, vthread.y, vthread.z",
    ):
        sch.bind(i, "threadIdx.q")
    sch.bind(i, "threadIdx.x")
    with refuses(
        sch,
        "bind: loop j stands in loop i, which is bound to threadIdx.x already",
        hint="fuse the two loops, or use another axis",
    ):
        sch.bind(j, "threadIdx.x")


def test_unit_reduction_loop_is_parallel():
    sch = Schedule(matmul(k=1))
    sch.parallel(sch.get_loops("C")[2])
    assert sch.position == 1


def test_elementwise_is_parallel():
    sch = Schedule(elementwise())
    sch.parallel(sch.get_loops("B")[0])
    assert sch.position == 1


def test_symbolic_loops():
    sch = Schedule(symbolic_matmul_relu())
    i, j, k = sch.get_loops("C")
    sch.parallel(i)
    sch.vectorize(j)
    sch.unroll(k)
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i in T.parallel(n):
            for j in T.vectorized(T.int64(4)):
                for k in T.unroll(n):
                    with T.block("C"):
                        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            C[v_i, v_j] = T.float32(0.0)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_tiles_that_do_not_divide():
    sch = Schedule(elementwise(10))
    i_0, i_1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.parallel(i_0)
    sch.vectorize(i_1)
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0 in T.parallel(3):
            for i_1 in T.vectorized(4):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_several_blocks_in_one_iteration():
    sch = Schedule(two_consumers(4))
    (i,) = sch.get_loops("C")
    sch.reverse_compute_at("D", i)
    sch.bind(i, "threadIdx.x")
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
            with T.block("D"):
                v_i = T.axis.spatial(4, i)
                D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_virtual_threads():
    for axis in ("vthread", "vthread.x", "vthread.y", "vthread.z"):
        sch = Schedule(copy_2d(4, 4))
        i, j = sch.get_loops("B")
        sch.bind(i, axis)
        sch.bind(j, "threadIdx.y")
        assert f'for i in T.thread_binding(4, thread="{axis}"):' in text(sch)
        replays(sch)


def test_a_mark_takes_the_place_of_another():
    sch = Schedule(copy_2d(4, 4))
    i, _j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.parallel(i)
    sch.unroll(i)
    assert text(sch).startswith("for i in T.unroll(4):")
    replays(sch)


def test_reductions_of_a_softmax_are_parallel_in_rows_only():
    sch = Schedule(softmax(2, 3))
    for name in "MESD":
        sch.parallel(sch.get_loops(name)[0])
    S, M = sch.get_loops("S")[1], sch.get_loops("M")[1]
    with refuses(
        sch,
        "parallel: loop r is not parallel: it runs over the reduce axis v_r of block S: "
        "its iterations update the same elements of S",
        hint="rfactor the loop first, or choose a spatial loop",
    ):
        sch.parallel(S)
    with refuses(
        sch,
        "vectorize: loop k is not parallel: it runs over the reduce axis v_k of block M: "
        "its iterations update the same elements of M",
        hint="rfactor the loop first, or choose a spatial loop",
    ):
        sch.vectorize(M)
    sch.unroll(S)
    replays(sch)
