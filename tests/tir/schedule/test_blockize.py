"""blockize: whole programs and refusals."""

from __future__ import annotations

import pytest

from mlcnb import te
from mlcnb.core.errors import ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul_relu,
    only,
    refuses,
    replays,
    row_sum,
    same_numbers,
)
from tests.tir.schedule.test_fuse_reduction_epilogue import biased


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
                for i_1, j_1 in T.grid(4, 2):
                    with T.block("B"):
                        v_i_i, v_j_i = T.axis.remap("SS", [i_1, j_1])
                        B[v_i_o * 4 + v_i_i, v_j_o * 2 + v_j_i] = A[v_i_o * 4 + v_i_i, v_j_o * 2 + v_j_i] * T.float32(2.0)
        """,  # noqa: E501
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
                with T.init():
                    for i_init in range(4):
                        with T.block("B_init"):
                            v_i_i_init = T.axis.spatial(4, i_init)
                            B[v_i_i_init] = T.float32(0.0)
                for i, k_1 in T.grid(4, 4):
                    with T.block("B"):
                        v_i_i, v_k_i = T.axis.remap("SR", [i, k_1])
                        B[v_i_i] = B[v_i_i] + A[v_i_i, v_k_o * 4 + v_k_i]
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
                for i_1 in range(4):
                    for j in T.vectorized(8):
                        with T.block("B"):
                            v_i_i, v_j_i = T.axis.remap("SS", [i_1, j])
                            B[v_i_o * 4 + v_i_i, v_j_i] = A[v_i_o * 4 + v_i_i, v_j_i] * T.float32(2.0)
        """,  # noqa: E501
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


def doubled(n: int = 16):
    """B = A * 2, then C and D from it."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((n,), lambda i: B[i] - C[i], name="D")
    return te.create_prim_func([A, C, D])


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def every_other(
    A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((2,), "float32")
):
    for i_0 in range(2):
        for i_1 in range(4):
            with T.block("B"):
                v = T.axis.spatial(8, i_0 * 4 + i_1)
                B[v * 2] = A[v]
        with T.block("C"):
            v = T.axis.spatial(2, i_0)
            C[v] = A[v]


def test_all_loops():
    sch = Schedule(copy_2d(4, 4))
    sch.blockize(sch.get_loops("B")[0])
    becomes(
        sch,
        """
        with T.block("B_o"):
            v_i_o = T.axis.spatial(1, 0)
            v_j_o = T.axis.spatial(1, 0)
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    v_i_i, v_j_i = T.axis.remap("SS", [i, j])
                    B[v_i_i, v_j_i] = A[v_i_i, v_j_i] * T.float32(2.0)
        """,
    )


def test_unit_axes_are_kept_or_dropped():
    sch = Schedule(copy_2d(4, 4))
    sch.blockize(sch.get_loops("B")[1], preserve_unit_iters=False)
    becomes(
        sch,
        """
        for i in range(4):
            with T.block("B_o"):
                v_i_o = T.axis.spatial(4, i)
                v_j_o = T.axis.spatial(1, 0)
                for j in range(4):
                    with T.block("B"):
                        v_j_i = T.axis.spatial(4, j)
                        B[v_i_o, v_j_i] = A[v_i_o, v_j_i] * T.float32(2.0)
        """,
    )


def test_a_reduction_with_all_its_loops():
    sch = Schedule(row_sum(3, 4))
    i, k = sch.get_loops("B")
    sch.reorder(k, i)
    sch.blockize(k)
    becomes(
        sch,
        """
        with T.block("B_o"):
            v_i_o = T.axis.spatial(1, 0)
            v_k_o = T.axis.reduce(1, 0)
            with T.init():
                for i_init in range(3):
                    with T.block("B_init"):
                        v_i_i_init = T.axis.spatial(3, i_init)
                        B[v_i_i_init] = T.float32(0.0)
            for k, i in T.grid(4, 3):
                with T.block("B"):
                    v_i_i, v_k_i = T.axis.remap("SR", [i, k])
                    B[v_i_i] = B[v_i_i] + A[v_i_i, v_k_i]
        """,
    )


def test_a_bias_in_the_init_is_read_by_it():
    sch = Schedule(biased(2, 2, 2))
    sch.fuse_reduction_epilogue("C", "D")
    sch.blockize(sch.get_loops("C")[2], preserve_unit_iters=False)
    becomes(
        sch,
        """
        for i, j in T.grid(2, 2):
            with T.block("C_o"):
                v_i_o, v_j_o = T.axis.remap("SS", [i, j])
                v_k_o = T.axis.reduce(1, 0)
                with T.init():
                    with T.block("C_init"):
                        D[v_i_o, v_j_o] = bias[v_j_o]
                for k in range(2):
                    with T.block("C"):
                        v_k_i = T.axis.reduce(2, k)
                        D[v_i_o, v_j_o] = D[v_i_o, v_j_o] + A[v_i_o, v_k_i] * B[v_k_i, v_j_o]
        """,
    )


def test_a_tile_with_holes_says_the_box_around_it_and_is_not_believed():
    for target in ("loop", "list"):
        sch = Schedule(every_other)
        B, (_, i_1), C = sch.get_block("B"), sch.get_loops("B"), sch.get_block("C")
        made = sch.blockize(i_1 if target == "loop" else [B, C])
        same_numbers(every_other, only(sch.mod))
        with pytest.raises(ScheduleError, match="does not store all that it says it writes of B"):
            sch.cache_write(made, 0, "local")


def test_symbolic_loops_outside():
    sch = Schedule(symbolic)
    _i, j = sch.get_loops("B")
    _, j_1 = sch.split(j, [None, 4])
    sch.blockize(j_1)
    becomes(
        sch,
        """
        for i, j_0 in T.grid(n, 4):
            with T.block("B_o"):
                vi_o, vj_o = T.axis.remap("SS", [i, j_0])
                for j_1 in range(4):
                    with T.block("B"):
                        vj_i = T.axis.spatial(4, j_1)
                        B[vi_o, vj_o * 4 + vj_i] = A[vi_o, vj_o * 4 + vj_i] * T.float32(2.0)
        """,
    )


def test_list_under_a_loop():
    sch = Schedule(doubled())
    i_0, _ = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.reverse_compute_at("D", i_0)
    made = sch.blockize([sch.get_block("C"), "D"])
    assert repr(made) == "block outer_C_D_"
    assert repr(sch.get_child_blocks(made)) == "[block C, block D]"
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v_i = T.axis.spatial(16, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i_0 in range(4):
            with T.block("outer_C_D_"):
                v_i_0 = T.axis.spatial(4, i_0)
                for i_1 in range(4):
                    with T.block("C"):
                        v_i = T.axis.spatial(16, v_i_0 * 4 + i_1)
                        C[v_i] = B[v_i] + T.float32(1.0)
                for ax0 in range(4):
                    with T.block("D"):
                        v_i = T.axis.spatial(16, v_i_0 * 4 + ax0)
                        D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_list_of_root_blocks():
    sch = Schedule(doubled(4))
    sch.blockize(["B", "C", "D"])
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        with T.block("outer_B_C_D_"):
            for i in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(4, i)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i)
                    C[v_i] = B[v_i] + T.float32(1.0)
            for i in range(4):
                with T.block("D"):
                    v_i = T.axis.spatial(4, i)
                    D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_list_with_tiles_that_do_not_divide():
    sch = Schedule(doubled(10))
    i_0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.reverse_compute_at("D", i_0)
    sch.blockize(["C", "D"])
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i in range(10):
            with T.block("B"):
                v_i = T.axis.spatial(10, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i_0 in range(3):
            with T.block("outer_C_D_"):
                v_i_0 = T.axis.spatial(3, i_0)
                for i_1 in range(4):
                    with T.block("C"):
                        v_i = T.axis.spatial(10, v_i_0 * 4 + i_1)
                        T.where(v_i_0 * 4 + i_1 < 10)
                        C[v_i] = B[v_i] + T.float32(1.0)
                for ax0 in range(4):
                    with T.block("D"):
                        v_i = T.axis.spatial(10, v_i_0 * 4 + ax0)
                        T.where(v_i_0 * 4 + ax0 < 10)
                        D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_list_with_unit_loops():
    for keep in (True, False):
        sch = Schedule(doubled(4))
        i_0, _ = sch.split(sch.get_loops("C")[0], [1, None])
        sch.reverse_compute_at("D", i_0)
        made = sch.blockize(["C", "D"], preserve_unit_iters=keep)
        assert len(sch.get(made).iter_vars) == keep
        same_numbers(only(sch.steps[0].mod), only(sch.mod))
        replays(sch)


def test_list_of_one():
    sch = Schedule(elementwise(8))
    sch.split(sch.get_loops("B")[0], [2, 4])
    sch.blockize(["B"])
    becomes(
        sch,
        """
        B = T.alloc_buffer((8,))
        for i_0, i_1 in T.grid(2, 4):
            with T.block("outer_B_"):
                v_i_0, v_i_1 = T.axis.remap("SS", [i_0, i_1])
                with T.block("B"):
                    v_i = T.axis.spatial(8, v_i_0 * 4 + v_i_1)
                    B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(8):
            with T.block("C"):
                v_i = T.axis.spatial(8, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_refusals_of_lists():
    sch = Schedule(doubled())
    B, C, D, root = (sch.get_block(x) for x in ("B", "C", "D", "root"))
    with refuses(
        sch,
        "blockize: block C stands between block B, block D",
        hint=("name all blocks from the first to the last"),
    ):
        sch.blockize([B, D])
    with refuses(sch, "blockize: block B is given twice"):
        sch.blockize([B, B])
    with refuses(sch, "blockize: no blocks given"):
        sch.blockize([])
    with refuses(sch, "blockize: block root and block root are not in one block"):
        sch.blockize([root, B])
    sch = Schedule(row_sum())
    B, (i, k) = sch.get_block("B"), sch.get_loops("B")
    with refuses(
        sch,
        "blockize: loop k, outside of block B, runs over a reduction",
        hint=("decompose_reduction first, or reorder the loop inside"),
    ):
        sch.blockize([B])
    sch = Schedule(matmul_relu())
    i, _ = sch.get_loops("D")
    sch.compute_at("C", i)
    C = sch.get_block("C")
    outer = sch.blockize([C, "D"])
    with refuses(sch, "blockize: block C and block outer_C_D_ are not in one block"):
        sch.blockize([C, outer])
