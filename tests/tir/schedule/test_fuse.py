"""fuse: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    matmul_relu,
    refuses,
    same_numbers,
    text,
)


def test_two_loops():
    sch = Schedule(copy_2d(6, 4))
    f = sch.fuse(*sch.get_loops("B"))
    assert repr(f) == "loop i_j_fused in 0..24 of block B"
    becomes(
        sch,
        """
        for i_j_fused in range(24):
            with T.block("B"):
                v_i = T.axis.spatial(6, i_j_fused // 4)
                v_j = T.axis.spatial(4, i_j_fused % 4)
                T.reads(A[v_i, v_j])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_three_loops_with_a_reduction():
    sch = Schedule(matmul(2, 3, 4))
    sch.fuse(*sch.get_loops("C"))
    becomes(
        sch,
        """
        for i_j_k_fused in range(24):
            with T.block("C"):
                v_i = T.axis.spatial(2, i_j_k_fused // 12)
                v_j = T.axis.spatial(3, i_j_k_fused // 4 % 3)
                v_k = T.axis.reduce(4, i_j_k_fused % 4)
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_split_then_fuse_gives_the_old_text():
    sch = Schedule(copy_2d(8, 4))
    i, _j = sch.get_loops("B")
    sch.fuse(*sch.split(i, [2, 4]))
    becomes(
        sch,
        """
        for i_0_i_1_fused, j in T.grid(8, 4):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i_0_i_1_fused, j])
                T.reads(A[v_i, v_j])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_fuse_then_split():
    sch = Schedule(copy_2d(6, 4))
    f = sch.fuse(*sch.get_loops("B"))
    sch.split(f, [None, 8])
    becomes(
        sch,
        """
        for i_j_fused_0, i_j_fused_1 in T.grid(3, 8):
            with T.block("B"):
                v_i = T.axis.spatial(6, i_j_fused_0 * 2 + i_j_fused_1 // 4)
                v_j = T.axis.spatial(4, i_j_fused_1 % 4)
                T.reads(A[v_i, v_j])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_unit_loop():
    sch = Schedule(copy_2d(1, 4))
    sch.fuse(*sch.get_loops("B"))
    assert text(sch).splitlines()[:4] == [
        "for i_j_fused in range(4):",
        '    with T.block("B"):',
        "        v_i = T.axis.spatial(1, 0)",
        "        v_j = T.axis.spatial(4, i_j_fused)",
    ]
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_refusals():
    sch = Schedule(matmul_relu())
    i, j, k = sch.get_loops("C")
    with refuses(
        sch,
        "fuse: loop k is not the whole body of loop i",
        hint="name all loops of the nest from the outside in, or reorder them first",
    ):
        sch.fuse(i, k)
    with refuses(
        sch,
        "fuse: loop i is not the whole body of loop j",
        hint="name all loops of the nest from the outside in, or reorder them first",
    ):
        sch.fuse(j, i)
    with refuses(
        sch,
        "fuse: no loops given",
    ):
        sch.fuse()
    sch.compute_at("C", sch.get_loops("D")[0])
    i, j = sch.get_loops("D")
    with refuses(
        sch,
        "fuse: loop j is not the whole body of loop i",
        hint="name all loops of the nest from the outside in, or reorder them first",
    ):
        sch.fuse(i, j)


def test_names_do_not_double_each_time():
    sch = Schedule(elementwise(64))
    (i,) = sch.get_loops("B")
    for _ in range(12):
        i = sch.fuse(*sch.split(i, [None, 4]))
    assert len(sch.get(i).loop_var.name) <= 80
