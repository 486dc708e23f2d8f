"""reverse_compute_at: whole programs, and the cases that would be silently wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb import te
from mlcnb.core.errors import ScheduleError
from mlcnb.ir import prim_ops as p
from mlcnb.tir import PrimFunc, Var
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    elementwise,
    matmul_relu,
    only,
    padded_pool,
    refuses,
    replays,
    same_numbers,
    softmax,
    stencil,
    symbolic_chain,
    symbolic_matmul_relu,
    two_consumers,
)


def shifted(n: int = 10):
    """B = A * 2, C[i] = B[i + 2]"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n - 2,), lambda i: B[i + 2] + 1.0, name="C")
    return te.create_prim_func([A, C])


def unpacked(n: int = 8):
    """B in blocks of four, C unpacks it."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n // 4, 4), lambda o, i: A[o * 4 + i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i // 4, i % 4] + 1.0, name="C")
    return te.create_prim_func([A, C])


def test_tile():
    sch = Schedule(elementwise())
    i0, _i1 = sch.split(sch.get_loops("B")[0], [4, 4])
    sch.reverse_compute_at("C", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i_0 in range(4):
            for i_1 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(16, i_0 * 4 + i_1)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(16, i_0 * 4 + ax0)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_epilogue_of_a_reduction():
    sch = Schedule(matmul_relu())
    _i, j, _k = sch.get_loops("C")
    sch.reverse_compute_at("D", j)
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        for i, j in T.grid(4, 4):
            for k in range(4):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_imperfect_tiles_get_a_predicate():
    sch = Schedule(elementwise(10))
    i0, _i1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_at("C", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0 in range(3):
            for i_1 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(10, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 10)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_shifted_read():
    sch = Schedule(shifted())
    i0, _i1 = sch.split(sch.get_loops("B")[0], [5, 2])
    sch.reverse_compute_at("C", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0 in range(5):
            for i_1 in range(2):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0 * 2 + i_1)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(2):
                with T.block("C"):
                    v_i = T.axis.spatial(8, i_0 * 2 - 2 + ax0)
                    T.where(2 <= i_0 * 2 + ax0)
                    C[v_i] = B[v_i + 2] + T.float32(1.0)
        """,
    )


def test_reads_another_layout():
    sch = Schedule(unpacked())
    o, _i = sch.get_loops("B")
    sch.reverse_compute_at("C", o)
    becomes(
        sch,
        """
        B = T.alloc_buffer((2, 4))
        for o in range(2):
            for i in range(4):
                with T.block("B"):
                    v_o, v_i = T.axis.remap("SS", [o, i])
                    B[v_o, v_i] = A[v_o * 4 + v_i] * T.float32(2.0)
            for ax0 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(8, o * 4 + ax0)
                    C[v_i] = B[v_i // 4, v_i % 4] + T.float32(1.0)
        """,
    )


def test_reduction_follows_its_input():
    sch = Schedule(softmax(2, 3))
    i, j = sch.get_loops("E")
    sch.reverse_compute_at("S", j)
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, j])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_other_inputs_stay_where_they_are():
    sch = Schedule(softmax(2, 3))
    i, _j = sch.get_loops("E")
    sch.reverse_compute_at("S", i)
    sch.reverse_compute_at("D", i)
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i in range(2):
            for j in range(3):
                with T.block("E"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            for ax0 in range(3):
                with T.block("S"):
                    v_i, v_r = T.axis.remap("SR", [i, ax0])
                    with T.init():
                        S[v_i] = T.float32(0.0)
                    S[v_i] = S[v_i] + E[v_i, v_r]
            for ax0 in range(3):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, ax0])
                    D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_under_a_parallel_loop():
    sch = Schedule(matmul_relu())
    i, j, _k = sch.get_loops("C")
    sch.parallel(i)
    sch.reverse_compute_at("D", j)
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        for i in T.parallel(4):
            for j in range(4):
                for k in range(4):
                    with T.block("C"):
                        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            C[v_i, v_j] = T.float32(0.0)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_under_a_loop_of_the_reduction_it_waits_for_the_last_iteration():
    sch = Schedule(matmul_relu())
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, [2, 2])
    sch.reorder(k_0, i, k_1, j)
    sch.reverse_compute_at("D", k_1)
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        for k_0, i, k_1 in T.grid(2, 4, 2):
            for j in range(4):
                with T.block("C"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    v_k = T.axis.reduce(4, k_0 * 2 + k_1)
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            for ax0 in range(4):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, ax0])
                    T.where(1 <= k_0 and 1 <= k_1)
                    D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_neighbours_are_read_when_the_last_of_them_is_made():
    sch = Schedule(stencil())
    i0, _i1 = sch.split(sch.get_loops("B")[0], [7, 2])
    sch.reverse_compute_at("C", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((14,))
        for i_0 in range(7):
            for i_1 in range(2):
                with T.block("B"):
                    v_i = T.axis.spatial(14, i_0 * 2 + i_1)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(2):
                with T.block("C"):
                    v_i = T.axis.spatial(12, i_0 * 2 - 2 + ax0)
                    T.where(2 <= i_0 * 2 + ax0)
                    C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]
        """,
    )


def test_an_index_of_several_axes_tells_each_of_them():
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4, 6), lambda i, j: B[j * 4 + i] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    becomes(
        sch,
        """
        B = T.alloc_buffer((24,))
        for i in range(24):
            with T.block("B"):
                v_i = T.axis.spatial(24, i)
                B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(4, i % 4)
                v_j = T.axis.spatial(6, i // 4)
                C[v_i, v_j] = B[v_j * 4 + v_i] + T.float32(1.0)
        """,
    )


def test_refuses_a_reduction_and_rows_in_one_loop():
    sch = Schedule(matmul_relu())
    D, loops = sch.get_block("D"), sch.get_loops("C")
    fused = sch.fuse(*loops)
    with refuses(
        sch,
        "reverse_compute_at: in loop i_j_k_fused, block C has not finished C: loop i_j_k_fused "
        "runs over its reduction",
        hint="choose a loop outside of loop i_j_k_fused",
    ):
        sch.reverse_compute_at(D, fused)


def test_refuses_neighbours_that_run_backwards_or_at_once():
    sch = Schedule(stencil())
    C, (i,) = sch.get_block("C"), sch.get_loops("B")
    i0, i1 = sch.split(i, [7, 2])
    sch.reorder(i1, i0)  # the elements of one residue, then those of the next
    message = (
        "reverse_compute_at: in an iteration of loop i_0, block C would read elements of B that "
        "are not made yet"
    )
    hint = "choose an outer loop, or compute_at the producer under a loop of the consumer"
    with refuses(sch, message, hint=hint):
        sch.reverse_compute_at(C, i0)
    sch = Schedule(stencil())
    C, i0 = sch.get_block("C"), sch.split(sch.get_loops("B")[0], [7, 2])[0]
    sch.parallel(i0)
    with refuses(sch, message, hint=hint):
        sch.reverse_compute_at(C, i0)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_wherever_a_consumer_goes_the_numbers_stay(data):
    """Sums over windows of two dimensions, loops split and in any order, any loop as the place."""
    rows, columns, depth = (data.draw(st.integers(1, 7)) for _ in range(3))
    window = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    A = te.placeholder((rows + 2, columns + 2, depth), name="A")
    k = te.reduce_axis((0, depth), name="k")
    B = te.compute((rows + 2, columns + 2), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    y, x = (te.reduce_axis((0, n), name=name) for n, name in zip(window, "yx", strict=True))
    C = te.compute((rows, columns), lambda i, j: te.sum(B[i + y, j + x], axis=[y, x]), name="C")
    before = te.create_prim_func([A, C])
    sch = Schedule(before)
    loops = sch.get_loops("B")
    if data.draw(st.booleans()):
        n = data.draw(st.sampled_from(range(3)))
        loops[n : n + 1] = sch.split(loops[n], [None, data.draw(st.integers(1, 3))])
    try:
        sch.reorder(*data.draw(st.permutations(loops)))
        sch.reverse_compute_at("C", data.draw(st.sampled_from(loops)))
    except ScheduleError:
        return
    same_numbers(before, only(sch.mod))


def test_refuses_instances_that_read_nothing():
    sch = Schedule(padded_pool())
    made = sch.cache_read("pad", 0, "local")
    pad, (i, _j) = sch.get_block("pad"), sch.get_loops(made)
    with refuses(
        sch,
        "reverse_compute_at: some instances of block pad do not read A_local, so no "
        "iteration would run them",
    ):
        sch.reverse_compute_at(pad, i)


def test_refuses_a_reduction_torn_apart_in_parallel():
    sch = Schedule(softmax(2, 3))
    S, (_i, j) = sch.get_block("S"), sch.get_loops("E")
    sch.parallel(j)
    with refuses(
        sch,
        "reverse_compute_at: loop j is parallel, and then it runs over the reduce axis "
        "v_r of block S: its iterations update the same elements of S",
        hint="mark loops as parallel, vectorized or bound after they have their blocks",
    ):
        sch.reverse_compute_at(S, j)


def test_refuses_a_loop_without_producers():
    sch = Schedule(softmax())
    D, (i, _k) = sch.get_block("D"), sch.get_loops("M")
    with refuses(
        sch,
        "reverse_compute_at: block E, behind loop i, writes E, which block D reads",
    ):
        sch.reverse_compute_at(D, i)
    j = sch.get_loops(D)[1]
    with refuses(
        sch,
        "reverse_compute_at: loop j is an ancestor of block D",
    ):
        sch.reverse_compute_at(D, j)


def test_symbolic_tile():
    sch = Schedule(symbolic_chain())
    i_0, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_at("C", i_0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((n,))
        for i_0 in range((n + T.int64(3)) // T.int64(4)):
            for i_1 in range(T.int64(4)):
                with T.block("B"):
                    v_i = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                    T.where(i_0 * T.int64(4) + i_1 < n)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(T.int64(4)):
                with T.block("C"):
                    v_i = T.axis.spatial(n, i_0 * T.int64(4) + ax0)
                    T.where(i_0 * T.int64(4) + ax0 < n)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_symbolic_epilogue():
    sch = Schedule(symbolic_matmul_relu())
    sch.reverse_compute_at("D", sch.get_loops("C")[0])
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i in range(n):
            for j, k in T.grid(T.int64(4), n):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            for ax0 in range(T.int64(4)):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, ax0])
                    D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_one_of_two_consumers():
    sch = Schedule(two_consumers(8))
    i_0, _ = sch.split(sch.get_loops("B")[0], [2, 4])
    sch.reverse_compute_at("C", i_0)
    sch.reverse_compute_at("D", i_0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((8,))
        for i_0 in range(2):
            for i_1 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(8, i_0 * 4 + i_1)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(8, i_0 * 4 + ax0)
                    C[v_i] = B[v_i] + T.float32(1.0)
            for ax0 in range(4):
                with T.block("D"):
                    v_i = T.axis.spatial(8, i_0 * 4 + ax0)
                    D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_unit_loops_are_kept_on_request():
    sch = Schedule(elementwise(4))
    (i,) = sch.get_loops("B")
    sch.reverse_compute_at("C", i, preserve_unit_loops=True)
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = A[v_i] * T.float32(2.0)
            for ax0 in range(1):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i + ax0)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def sums(n) -> PrimFunc:
    """C = A + B, D = C + C, E = D + A: the program of TVM's issue 15911."""
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    D = te.compute((n,), lambda i: C[i] + C[i], name="D")
    E = te.compute((n,), lambda i: D[i] + A[i], name="E")
    return te.create_prim_func([A, B, E])


@pytest.mark.parametrize("n", [Var("n", "int32"), 40, 64], ids=str)
@pytest.mark.parametrize("factors", [[None, 32], [32, None], [None, 8, 2]], ids=str)
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("reordered", [False, True])
def test_issue_15911(n, factors, level, reordered):
    """https://github.com/apache/tvm/issues/15911: TVM leaves a part of E unwritten, silently."""
    sch = Schedule(sums(n))
    loops = sch.split(sch.get_loops("D")[0], factors)
    if reordered:
        sch.reorder(*reversed(loops))
    before = sch.mod
    try:
        sch.reverse_compute_at("E", loops[level])
        sch.compute_at("C", loops[level])
    except ScheduleError:
        assert reordered or p.as_int(n) is None
        if sch.mod is before:
            return
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_issue_15911_is_refused_where_the_tile_is_symbolic():
    sch = Schedule(sums(Var("n", "int32")))
    E = sch.get_block("E")
    i_0, i_1 = sch.split(sch.get_loops("D")[0], [32, None])
    with refuses(
        sch, "reverse_compute_at: block E may read elements of D that block D does not write"
    ):
        sch.reverse_compute_at(E, i_0)
    sch.reorder(i_1, i_0)
    with refuses(
        sch, "reverse_compute_at: block E may read elements of D that block D does not write"
    ):
        sch.reverse_compute_at(E, i_1)


def test_issue_15911_as_it_was_meant():
    sch = Schedule(sums(Var("n", "int32")))
    i_0, _ = sch.split(sch.get_loops("D")[0], [None, 32])
    sch.reverse_compute_at("E", i_0)
    sch.compute_at("C", i_0)
    becomes(
        sch,
        """
        C = T.alloc_buffer((n,))
        D = T.alloc_buffer((n,))
        for i_0 in range((n + 31) // 32):
            for ax0 in range(32):
                with T.block("C"):
                    v_i = T.axis.spatial(n, i_0 * 32 + ax0)
                    T.where(i_0 * 32 + ax0 < n)
                    C[v_i] = A[v_i] + B[v_i]
            for i_1 in range(32):
                with T.block("D"):
                    v_i = T.axis.spatial(n, i_0 * 32 + i_1)
                    T.where(i_0 * 32 + i_1 < n)
                    D[v_i] = C[v_i] + C[v_i]
            for ax0 in range(32):
                with T.block("E"):
                    v_i = T.axis.spatial(n, i_0 * 32 + ax0)
                    T.where(i_0 * 32 + ax0 < n)
                    E[v_i] = D[v_i] + A[v_i]
        """,
    )
