"""fuse: whole programs and refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    matmul_relu,
    only,
    refuses,
    replays,
    same_numbers,
    symbolic_matmul_relu,
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
                v_j = T.axis.spatial(3, i_j_k_fused % 12 // 4)
                v_k = T.axis.reduce(4, i_j_k_fused % 4)
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


def test_loops_that_never_run():
    """No digit of nothing: this divided by the extent, 0."""
    for shape in ((4, 0), (0, 4), (0, 0)):
        sch = Schedule(copy_2d(*shape))
        assert repr(sch.fuse(*sch.get_loops("B"))) == "loop i_j_fused in 0..0 of block B"


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


def test_predicates_follow():
    sch = Schedule(copy_2d(7, 5))
    i, j = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 4])
    sch.fuse(i_1, j)
    becomes(
        sch,
        """
        for i_0, i_1_j_fused in T.grid(2, 20):
            with T.block("B"):
                v_i = T.axis.spatial(7, i_0 * 4 + i_1_j_fused // 5)
                v_j = T.axis.spatial(5, i_1_j_fused % 5)
                T.where(i_0 * 4 + i_1_j_fused // 5 < 7)
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_tiles_that_do_not_divide_put_together_again():
    sch = Schedule(elementwise(10))
    sch.fuse(*sch.split(sch.get_loops("B")[0], [None, 4]))
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0_i_1_fused in range(12):
            with T.block("B"):
                v_i = T.axis.spatial(10, i_0_i_1_fused)
                T.where(i_0_i_1_fused < 10)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_several_blocks_inside():
    sch = Schedule(matmul_relu(3, 4, 2))
    _i, j, _k = sch.get_loops("C")
    sch.reverse_compute_at("D", j)
    sch.fuse(*sch.get_loops("C")[:2])
    becomes(
        sch,
        """
        C = T.alloc_buffer((3, 4))
        for i_j_fused in range(12):
            for k in range(2):
                with T.block("C"):
                    v_i = T.axis.spatial(3, i_j_fused // 4)
                    v_j = T.axis.spatial(4, i_j_fused % 4)
                    v_k = T.axis.reduce(2, k)
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("D"):
                v_i = T.axis.spatial(3, i_j_fused // 4)
                v_j = T.axis.spatial(4, i_j_fused % 4)
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_symbolic_extents():
    sch = Schedule(symbolic_matmul_relu())
    i, _j, _k = sch.get_loops("C")
    sch.fuse(*sch.get_loops("C"))
    sch.fuse(*sch.get_loops("D"))
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i_j_k_fused in range(n * T.int64(4) * n):
            with T.block("C"):
                v_i = T.axis.spatial(n, i_j_k_fused // (n * T.int64(4)))
                v_j = T.axis.spatial(T.int64(4), i_j_k_fused % (n * T.int64(4)) // n)
                v_k = T.axis.reduce(n, i_j_k_fused % n)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i_j_fused in range(n * T.int64(4)):
            with T.block("D"):
                v_i = T.axis.spatial(n, i_j_fused // T.int64(4))
                v_j = T.axis.spatial(T.int64(4), i_j_fused % T.int64(4))
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_one_loop_gets_another_name():
    sch = Schedule(elementwise(4))
    sch.fuse(sch.get_loops("B")[0])
    assert repr(sch.get_loops("B")) == "[loop i_fused in 0..4 of block B]"
    replays(sch)


def test_unit_loops_are_kept_or_dropped():
    for keep in (True, False):
        sch = Schedule(copy_2d(1, 1))
        sch.fuse(*sch.get_loops("B"), preserve_unit_iters=keep)
        same_numbers(only(sch.steps[0].mod), only(sch.mod))
        replays(sch)


def test_refuses_starts_marks_and_ranges():
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    sch.annotate(j, "pragma", 1)
    with refuses(
        sch, "fuse: loop j is annotated with pragma", hint="fuse first, annotate afterwards"
    ):
        sch.fuse(i, j)
    sch.unannotate(j, "pragma")
    sch.bind(i, "blockIdx.x")
    with refuses(sch, "fuse: loop i is bound to blockIdx.x", hint="fuse first, bind afterwards"):
        sch.fuse(i, j)
    sch = Schedule(copy_2d())
    _, part = sch.loop_partition(sch.get_loops("B")[0], [4])
    j = sch.get_loops("B_i1")[1]
    with refuses(sch, "fuse: loop i1 starts at 4, not at 0"):
        sch.fuse(part, j)
    sch = Schedule(CARRIED["triangle"])
    i, j = sch.get_loops("B")
    with refuses(sch, "fuse: the extent of loop j depends on the loops around it"):
        sch.fuse(i, j)


def test_loops_of_one_iteration_are_at_0():
    """Also where nobody knows how far the others go: the first that moves needs no remainder."""
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    x = te.placeholder((1, n, 1, m), name="A")
    sch = Schedule(te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] * 2.0, name="B")]))
    sch.fuse(*sch.get_loops("B"))
    becomes(
        sch,
        """
        for i0_i1_i2_i3_fused in range(n * m):
            with T.block("B"):
                v_i0 = T.axis.spatial(T.int64(1), T.int64(0))
                v_i1 = T.axis.spatial(n, i0_i1_i2_i3_fused // m)
                v_i2 = T.axis.spatial(T.int64(1), T.int64(0))
                v_i3 = T.axis.spatial(m, i0_i1_i2_i3_fused % m)
                B[v_i0, v_i1, v_i2, v_i3] = A[v_i0, v_i1, v_i2, v_i3] * T.float32(2.0)
        """,
    )
