"""rfactor: whole programs and refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    matmul,
    only,
    padded_pool,
    refuses,
    replays,
    row_sum,
    same_numbers,
    softmax,
    symbolic_matmul_relu,
    text,
)
from tests.tir.schedule.test_fuse_reduction_epilogue import biased


def row_max(n: int = 2, m: int = 8):
    """B[i] = the largest of A[i, :]"""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="B")
    return te.create_prim_func([A, B])


def test_inner_part():
    sch = Schedule(row_sum(4, 8))
    _k0, k1 = sch.split(sch.get_loops("B")[1], [None, 4])
    made = sch.rfactor(k1, 0)
    assert repr(made) == "block B_rf"
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((4, 4))
        for i, k_0, k_1 in T.grid(4, 2, 4):
            with T.block("B_rf"):
                v_k_1, v_i, v_k_0 = T.axis.remap("SSR", [k_1, i, k_0])
                T.reads(A[v_i, v_k_0 * 4 + v_k_1])
                T.writes(B_rf[v_k_1, v_i])
                with T.init():
                    B_rf[v_k_1, v_i] = T.float32(0.0)
                B_rf[v_k_1, v_i] = B_rf[v_k_1, v_i] + A[v_i, v_k_0 * 4 + v_k_1]
        for i, k_1 in T.grid(4, 4):
            with T.block("B"):
                v_k_1, v_i = T.axis.remap("RS", [k_1, i])
                T.reads(B_rf[v_k_1, v_i])
                T.writes(B[v_i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_k_1, v_i]
        """,
    )


def test_outer_part_and_last_axis():
    sch = Schedule(row_sum(4, 8))
    k0, _k1 = sch.split(sch.get_loops("B")[1], [None, 3])
    sch.rfactor(k0, -1)
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((4, 3))
        for i, k_0, k_1 in T.grid(4, 3, 3):
            with T.block("B_rf"):
                v_k_0, v_i, v_k_1 = T.axis.remap("SSR", [k_0, i, k_1])
                T.where(k_0 * 3 + k_1 < 8)
                T.reads(A[v_i, v_k_0 * 3 + v_k_1])
                T.writes(B_rf[v_i, v_k_0])
                with T.init():
                    B_rf[v_i, v_k_0] = T.float32(0.0)
                B_rf[v_i, v_k_0] = B_rf[v_i, v_k_0] + A[v_i, v_k_0 * 3 + v_k_1]
        for i, k_0 in T.grid(4, 3):
            with T.block("B"):
                v_k_0, v_i = T.axis.remap("RS", [k_0, i])
                T.reads(B_rf[v_i, v_k_0])
                T.writes(B[v_i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_i, v_k_0]
        """,
    )


def test_the_factor_is_parallel():
    sch = Schedule(row_max())
    k0, k1 = sch.split(sch.get_loops("B")[1], [4, 2])
    made = sch.rfactor(k0, 0)
    sch.parallel(sch.get_loops(made)[1])
    sch.vectorize(sch.get_loops("B")[0])
    assert "for k_0 in T.parallel(4):" in text(sch)
    assert "for i in T.vectorized(2):" in text(sch)
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_handle_of_the_block_becomes_the_combining_one():
    sch = Schedule(row_sum())
    B = sch.get_block("B")
    sch.rfactor(sch.get_loops(B)[1], 0)
    assert repr(B) == "block B"
    assert [x.name_hint for x in sch.state.tree("main").blocks] == ["root", "B_rf", "B"]


def test_refusals():
    sch = Schedule(row_sum(4, 8))
    i, k = sch.get_loops("B")
    with refuses(
        sch,
        "rfactor: loop i is no loop of the reduction of block B",
    ):
        sch.rfactor(i, 0)
    with refuses(
        sch,
        "rfactor: factor_axis 2 is none of the 2 axes of the new buffer",
        hint="-2 to 1",
    ):
        sch.rfactor(k, 2)
    sch.decompose_reduction("B", k)
    with refuses(
        sch,
        "rfactor: block B_update is no reduction block: it has no init",
    ):
        sch.rfactor(k, 0)


def test_refuses_parts_with_nothing_in_them():
    sch = Schedule(row_sum(4, 4))
    _k0, k1 = sch.split(sch.get_loops("B")[1], [1, 6])
    with refuses(
        sch,
        "rfactor: some iterations of loop k_1 have nothing to reduce",
    ):
        sch.rfactor(k1, 0)


def test_refuses_what_is_no_reduction():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    with refuses(
        sch,
        "rfactor: block B is no reduction block: it has no init",
    ):
        sch.rfactor(i, 0)


def test_symbolic():
    sch = Schedule(symbolic_matmul_relu())
    k = sch.get_loops("C")[2]
    sch.rfactor(k, 0)
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        C_rf = T.alloc_buffer((n, n, T.int64(4)))
        for i, j, k in T.grid(n, T.int64(4), n):
            with T.block("C_rf"):
                v_k, v_i, v_j = T.axis.remap("SSS", [k, i, j])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C_rf[v_k, v_i, v_j])
                with T.init():
                    C_rf[v_k, v_i, v_j] = T.float32(0.0)
                C_rf[v_k, v_i, v_j] = C_rf[v_k, v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j, k in T.grid(n, T.int64(4), n):
            with T.block("C"):
                v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])
                T.reads(C_rf[v_k, v_i, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + C_rf[v_k, v_i, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(C[v_i, v_j])
                T.writes(D[v_i, v_j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_a_maximum():
    sch = Schedule(softmax(2, 4))
    _, k_1 = sch.split(sch.get_loops("M")[1], [2, 2])
    sch.rfactor(k_1, 0)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_two_reduce_axes():
    sch = Schedule(padded_pool(3))
    sch.rfactor(sch.get_loops("C")[3], 2)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_predicates_of_spatial_axes():
    sch = Schedule(matmul(3, 2, 4))
    i, _j, k = sch.get_loops("C")
    sch.split(i, [None, 2])
    sch.rfactor(k, 1)
    becomes(
        sch,
        """
        C_rf = T.alloc_buffer((3, 4, 2))
        for i_0, i_1, j, k in T.grid(2, 2, 2, 4):
            with T.block("C_rf"):
                v_k = T.axis.spatial(4, k)
                v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                v_j = T.axis.spatial(2, j)
                T.where(i_0 * 2 + i_1 < 3)
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C_rf[v_i, v_k, v_j])
                with T.init():
                    C_rf[v_i, v_k, v_j] = T.float32(0.0)
                C_rf[v_i, v_k, v_j] = C_rf[v_i, v_k, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i_0, i_1, j, k in T.grid(2, 2, 2, 4):
            with T.block("C"):
                v_k = T.axis.reduce(4, k)
                v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                v_j = T.axis.spatial(2, j)
                T.where(i_0 * 2 + i_1 < 3)
                T.reads(C_rf[v_i, v_k, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + C_rf[v_i, v_k, v_j]
        """,
    )


def test_refuses_what_starts_from_something_else():
    sch = Schedule(biased(2, 2, 4))
    sch.fuse_reduction_epilogue("C", "D")
    k = sch.get_loops("C")[2]
    with refuses(sch, "rfactor: block C starts from something else than the identity of its sum"):
        sch.rfactor(k, 0)
