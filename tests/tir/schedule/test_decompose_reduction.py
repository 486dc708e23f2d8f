"""decompose_reduction: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, copy_2d, matmul, refuses, row_sum


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
                T.reads()
                T.writes(C[v_i, v_j])
                C[v_i, v_j] = T.float32(0.0)
            for k in range(4):
                with T.block("C_update"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    T.reads(C[v_i, v_j], A[v_i, v_k], B[v_k, v_j])
                    T.writes(C[v_i, v_j])
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
                T.reads()
                T.writes(C[v_i, v_j])
                C[v_i, v_j] = T.float32(0.0)
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C_update"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(C[v_i, v_j], A[v_i, v_k], B[v_k, v_j])
                T.writes(C[v_i, v_j])
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
                    T.reads()
                    T.writes(C[v_i, v_j])
                    C[v_i, v_j] = T.float32(0.0)
            for k_0, k_1 in T.grid(2, 4):
                for j_1 in T.vectorized(4):
                    with T.block("C_update"):
                        v_i = T.axis.spatial(4, i)
                        v_j = T.axis.spatial(8, j_0 * 4 + j_1)
                        v_k = T.axis.reduce(6, k_0 * 4 + k_1)
                        T.where(k_0 * 4 + k_1 < 6)
                        T.reads(C[v_i, v_j], A[v_i, v_k], B[v_k, v_j])
                        T.writes(C[v_i, v_j])
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
