"""blockize: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, copy_2d, elementwise, matmul_relu, refuses, row_sum


def test_tile():
    sch = Schedule(copy_2d(8, 8))
    i, j = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 2])
    sch.reorder(i0, j0, i1, j1)
    made = sch.blockize(i1)
    assert repr(made) == "block B_o"
    assert [repr(x) for x in sch.get_loops("B")] == [
        "loop i_1 in 0..4 of block B",
        "loop j_1 in 0..2 of block B",
    ]
    becomes(
        sch,
        """
        for i_0, j_0 in T.grid(2, 4):
            with T.block("B_o"):
                v_i_o, v_j_o = T.axis.remap("SS", [i_0, j_0])
                T.reads(A[v_i_o * 4:v_i_o * 4 + 4, v_j_o * 2:v_j_o * 2 + 2])
                T.writes(B[v_i_o * 4:v_i_o * 4 + 4, v_j_o * 2:v_j_o * 2 + 2])
                for i_1, j_1 in T.grid(4, 2):
                    with T.block("B"):
                        v_i = T.axis.spatial(8, v_i_o * 4 + i_1)
                        v_j = T.axis.spatial(8, v_j_o * 2 + j_1)
                        T.reads(A[v_i, v_j])
                        T.writes(B[v_i, v_j])
                        B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_reduction_gets_an_init_over_the_tile():
    sch = Schedule(row_sum(4, 8))
    i, k = sch.get_loops("B")
    k0, k1 = sch.split(k, [2, 4])
    sch.reorder(k0, i, k1)
    sch.blockize(i)
    becomes(
        sch,
        """
        for k_0 in range(2):
            with T.block("B_o"):
                v_i_o = T.axis.spatial(1, 0)
                v_k_o = T.axis.reduce(2, k_0)
                T.reads(A[v_i_o * 4:v_i_o * 4 + 4, v_k_o * 4:v_k_o * 4 + 4])
                T.writes(B[v_i_o * 4:v_i_o * 4 + 4])
                with T.init():
                    for i_init in range(4):
                        with T.block("B_init"):
                            v_i = T.axis.spatial(4, v_i_o * 4 + i_init)
                            T.reads()
                            T.writes(B[v_i])
                            B[v_i] = T.float32(0.0)
                for i, k_1 in T.grid(4, 4):
                    with T.block("B"):
                        v_i = T.axis.spatial(4, v_i_o * 4 + i)
                        v_k = T.axis.reduce(8, v_k_o * 4 + k_1)
                        T.reads(B[v_i], A[v_i, v_k])
                        T.writes(B[v_i])
                        B[v_i] = B[v_i] + A[v_i, v_k]
        """,
    )


def test_blocks_in_blocks_are_scheduled_on():
    sch = Schedule(copy_2d(8, 8))
    i, _j = sch.get_loops("B")
    _i0, i1 = sch.split(i, [None, 4])
    outer = sch.blockize(i1)
    sch.parallel(sch.get_loops(outer)[0])
    sch.vectorize(sch.get_loops("B")[1])
    becomes(
        sch,
        """
        for i_0 in T.parallel(2):
            with T.block("B_o"):
                v_i_o = T.axis.spatial(2, i_0)
                v_j_o = T.axis.spatial(1, 0)
                T.reads(A[v_i_o * 4:v_i_o * 4 + 4, v_j_o * 8:v_j_o * 8 + 8])
                T.writes(B[v_i_o * 4:v_i_o * 4 + 4, v_j_o * 8:v_j_o * 8 + 8])
                for i_1 in range(4):
                    for j in T.vectorized(8):
                        with T.block("B"):
                            v_i = T.axis.spatial(8, v_i_o * 4 + i_1)
                            v_j = T.axis.spatial(8, v_j_o * 8 + j)
                            T.reads(A[v_i, v_j])
                            T.writes(B[v_i, v_j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_refusals():
    sch = Schedule(matmul_relu())
    i, _j, _k = sch.get_loops("C")
    sch.reverse_compute_at("D", i)
    with refuses(
        sch,
        "blockize: loop i holds 2 blocks",
    ):
        sch.blockize(i)
    sch = Schedule(elementwise(10))
    _i0, i1 = sch.split(sch.get_loops("B")[0], [None, 4])
    with refuses(
        sch,
        "blockize: the predicate of block B cuts through a tile",
    ):
        sch.blockize(i1)
