"""decompose_reduction: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    matmul,
    refuses,
    row_sum,
    softmax,
    symbolic_matmul_relu,
)


def test_before_the_reduction():
    sch = Schedule(matmul())
    _i, _j, k = sch.get_loops("C")
    init = sch.decompose_reduction("C", k)
    assert repr(init) == "block C_init"
    becomes(
        sch,
        """
        for i, j in T.grid(4, 4):
            with T.block("C_init"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = T.float32(0.0)
            for k in range(4):
                with T.block("C_update"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_before_all_loops():
    sch = Schedule(matmul())
    i, _j, _k = sch.get_loops("C")
    sch.decompose_reduction("C", i)
    becomes(
        sch,
        """
        for i_init, j_init in T.grid(4, 4):
            with T.block("C_init"):
                v_i, v_j = T.axis.remap("SS", [i_init, j_init])
                C[v_i, v_j] = T.float32(0.0)
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C_update"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_tile_keeps_the_kinds_of_its_loops():
    sch = Schedule(matmul(4, 8, 6))
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [2, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, k1, j1)
    sch.vectorize(j1)
    sch.decompose_reduction("C", k0)
    becomes(
        sch,
        """
        for i, j_0 in T.grid(4, 2):
            for j_1_init in T.vectorized(4):
                with T.block("C_init"):
                    v_i = T.axis.spatial(4, i)
                    v_j = T.axis.spatial(8, j_0 * 4 + j_1_init)
                    C[v_i, v_j] = T.float32(0.0)
            for k_0, k_1 in T.grid(2, 4):
                for j_1 in T.vectorized(4):
                    with T.block("C_update"):
                        v_i = T.axis.spatial(4, i)
                        v_j = T.axis.spatial(8, j_0 * 4 + j_1)
                        v_k = T.axis.reduce(6, k_0 * 4 + k_1)
                        T.where(k_0 * 4 + k_1 < 6)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_handle_of_the_block_becomes_the_update():
    sch = Schedule(row_sum())
    B = sch.get_block("B")
    sch.decompose_reduction(B, sch.get_loops(B)[1])
    assert repr(B) == "block B_update"


def test_refusals():
    sch = Schedule(matmul())
    C, (i, j, k) = sch.get_block("C"), sch.get_loops("C")
    sch.reorder(k, i, j)
    with refuses(
        sch,
        "decompose_reduction: loop k, a loop of the reduction, is outside loop j: the "
        "init would run again in each of its iterations",
        hint="decompose at loop k, or reorder it into loop j",
    ):
        sch.decompose_reduction(C, j)
    sch.decompose_reduction(C, k)
    with refuses(
        sch,
        "decompose_reduction: block C_update is no reduction block: it has no init",
    ):
        sch.decompose_reduction(C, k)


def test_refuses_what_is_no_reduction():
    sch = Schedule(copy_2d())
    B, (i, _j) = sch.get_block("B"), sch.get_loops("B")
    with refuses(
        sch,
        "decompose_reduction: block B is no reduction block: it has no init",
    ):
        sch.decompose_reduction(B, i)


def test_symbolic():
    sch = Schedule(symbolic_matmul_relu())
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i, j in T.grid(n, T.int64(4)):
            with T.block("C_init"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = T.float32(0.0)
            for k in range(n):
                with T.block("C_update"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_predicates_of_spatial_and_reduce_axes():
    sch = Schedule(matmul(3, 2, 5))
    i, j, k = sch.get_loops("C")
    sch.split(i, [None, 2])
    k_0, _ = sch.split(k, [None, 2])
    sch.decompose_reduction("C", k_0)
    becomes(
        sch,
        """
        for i_0, i_1, j in T.grid(2, 2, 2):
            with T.block("C_init"):
                v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                v_j = T.axis.spatial(2, j)
                T.where(i_0 * 2 + i_1 < 3)
                C[v_i, v_j] = T.float32(0.0)
            for k_0, k_1 in T.grid(3, 2):
                with T.block("C_update"):
                    v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                    v_j = T.axis.spatial(2, j)
                    v_k = T.axis.reduce(5, k_0 * 2 + k_1)
                    T.where(i_0 * 2 + i_1 < 3 and k_0 * 2 + k_1 < 5)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_fused_loops():
    sch = Schedule(matmul(3, 2, 4))
    i, j, k = sch.get_loops("C")
    f = sch.fuse(i, j)
    sch.decompose_reduction("C", f)
    becomes(
        sch,
        """
        for i_j_fused_init in range(6):
            with T.block("C_init"):
                v_i = T.axis.spatial(3, i_j_fused_init // 2)
                v_j = T.axis.spatial(2, i_j_fused_init % 2)
                C[v_i, v_j] = T.float32(0.0)
        for i_j_fused, k in T.grid(6, 4):
            with T.block("C_update"):
                v_i = T.axis.spatial(3, i_j_fused // 2)
                v_j = T.axis.spatial(2, i_j_fused % 2)
                v_k = T.axis.reduce(4, k)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_beside_another_block():
    sch = Schedule(softmax(2, 3))
    i, j = sch.get_loops("E")
    sch.reverse_compute_at("S", i)
    sch.decompose_reduction("S", sch.get_loops("S")[1])
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
            with T.block("S_init"):
                v_i = T.axis.spatial(2, i)
                S[v_i] = T.float32(0.0)
            for ax0 in range(3):
                with T.block("S_update"):
                    v_i, v_r = T.axis.remap("SR", [i, ax0])
                    S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_a_loop_of_another_block():
    sch = Schedule(softmax(2, 3))
    S, j = sch.get_block("S"), sch.get_loops("E")[1]
    with refuses(sch, "decompose_reduction: loop j is not around block S"):
        sch.decompose_reduction(S, j)
