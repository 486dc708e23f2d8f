"""loop_partition: whole programs, reductions, nested parts, refusals."""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    only,
    refuses,
    replays,
    row_sum,
    same_numbers,
)


@T.prim_func
def opaque(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("opaque"):
            T.reads(A[i, j])
            T.writes(B[i, j])
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)


@T.prim_func
def two_blocks(
    A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.float32(1)


def test_without_none_the_rest_is_one_part_more():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    parts = sch.loop_partition(i, [2, 1])
    assert list(map(repr, parts)) == [
        "loop i0 in 0..2 of block B_i0",
        "loop i1 in 2..3 of block B_i1",
        "loop i2 in 3..8 of block B_i2",
    ]
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            with T.block("B_i0_partition"):
                for i0, j in T.grid(2, 8):
                    with T.block("B_i0"):
                        v_i, v_j = T.axis.remap("SS", [i0, j])
                        B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
            with T.block("B_i1_partition"):
                for i1 in range(2, 3):
                    for j in range(8):
                        with T.block("B_i1"):
                            v_i, v_j = T.axis.remap("SS", [i1, j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
            with T.block("B_i2_partition"):
                for i2 in range(3, 8):
                    for j in range(8):
                        with T.block("B_i2"):
                            v_i, v_j = T.axis.remap("SS", [i2, j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_none_is_what_remains():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    sch.loop_partition(i, [None, 2])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            with T.block("B_i0_partition"):
                for i0, j in T.grid(6, 8):
                    with T.block("B_i0"):
                        v_i, v_j = T.axis.remap("SS", [i0, j])
                        B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
            with T.block("B_i1_partition"):
                for i1 in range(6, 8):
                    for j in range(8):
                        with T.block("B_i1"):
                            v_i, v_j = T.axis.remap("SS", [i1, j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_parts_of_parts():
    sch = Schedule(copy_2d())
    _i, j = sch.get_loops("B")
    sch.loop_partition(j, [5])
    i, _j0 = sch.get_loops("B_j_common")[0], sch.get_loops("B_j0")
    (j1,) = sch.get_loops("B_j1")
    sch.loop_partition(j1, [1, None])
    becomes(
        sch,
        """
        for i in range(8):
            with T.block("B_j_common"):
                with T.block("B_j0_partition"):
                    for j0 in range(5):
                        with T.block("B_j0"):
                            v_i, v_j = T.axis.remap("SS", [i, j0])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
                with T.block("B_j1_partition"):
                    with T.block("B_j1_j1_common"):
                        with T.block("B_j1_j10_partition"):
                            for j10 in range(5, 6):
                                with T.block("B_j1_j10"):
                                    v_i, v_j = T.axis.remap("SS", [i, j10])
                                    B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
                        with T.block("B_j1_j11_partition"):
                            for j11 in range(6, 8):
                                with T.block("B_j1_j11"):
                                    v_i, v_j = T.axis.remap("SS", [i, j11])
                                    B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )
    assert repr(i) == "loop i in 0..8 of block B_j_common"


def test_reduction_begins_in_the_first_part_only():
    sch = Schedule(row_sum(2, 8))
    _i, k = sch.get_loops("B")
    sch.loop_partition(k, [None, 3])
    becomes(
        sch,
        """
        for i in range(2):
            with T.block("B_k_common"):
                T.reads(A[i, 0:8])
                with T.block("B_k0_partition"):
                    for k0 in range(5):
                        with T.block("B_k0"):
                            v_i = T.axis.spatial(2, i)
                            v_k = T.axis.reduce(8, k0)
                            with T.init():
                                B[v_i] = T.float32(0.0)
                            B[v_i] = B[v_i] + A[v_i, v_k]
                with T.block("B_k1_partition"):
                    for k1 in range(5, 8):
                        with T.block("B_k1"):
                            v_i, v_k = T.axis.remap("SR", [i, k1])
                            B[v_i] = B[v_i] + A[v_i, v_k]
        """,
    )


def test_reduction_of_tiles():
    for number, first in ((0, [1]), (1, [2])):
        sch = Schedule(row_sum(2, 12))
        loops = sch.split(sch.get_loops("B")[1], [None, 4])
        sch.loop_partition(loops[number], first)
        same_numbers(only(sch.steps[0].mod), only(sch.mod))
        replays(sch)


def test_spatial_loop_of_a_reduction():
    sch = Schedule(matmul(6, 2, 2))
    sch.loop_partition(sch.get_loops("C")[0], [4])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("C_i_common"):
            with T.block("C_i0_partition"):
                for i0, j, k in T.grid(4, 2, 2):
                    with T.block("C_i0"):
                        v_i, v_j, v_k = T.axis.remap("SSR", [i0, j, k])
                        with T.init():
                            C[v_i, v_j] = T.float32(0.0)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("C_i1_partition"):
                for i1 in range(4, 6):
                    for j, k in T.grid(2, 2):
                        with T.block("C_i1"):
                            v_i, v_j, v_k = T.axis.remap("SSR", [i1, j, k])
                            with T.init():
                                C[v_i, v_j] = T.float32(0.0)
                            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_predicates_stay():
    sch = Schedule(elementwise(10))
    i, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.loop_partition(i, [2])
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        with T.block("B_i_0_common"):
            with T.block("B_i_00_partition"):
                for i_00, i_1 in T.grid(2, 4):
                    with T.block("B_i_00"):
                        v_i = T.axis.spatial(8, i_00 * 4 + i_1)
                        T.where(i_00 * 4 + i_1 < 10)
                        B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("B_i_01_partition"):
                T.reads(A[8:10])
                T.writes(B[8:10])
                for i_01 in range(2, 3):
                    for i_1 in range(4):
                        with T.block("B_i_01"):
                            v_i = T.axis.spatial((8, 10), i_01 * 4 + i_1)
                            T.where(i_01 * 4 + i_1 < 10)
                            B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_opaque_block():
    sch = Schedule(opaque)
    sch.loop_partition(sch.get_loops("opaque")[0], [None, 3])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("opaque_i_common"):
            with T.block("opaque_i0_partition"):
                for i0, j in T.grid(5, 4):
                    with T.block("opaque_i0"):
                        with T.block("B_i0"):
                            vi, vj = T.axis.remap("SS", [i0, j])
                            B[vi, vj] = A[vi, vj] * T.float32(2.0)
            with T.block("opaque_i1_partition"):
                for i1 in range(5, 8):
                    for j in range(4):
                        with T.block("opaque_i1"):
                            with T.block("B_i1"):
                                vi, vj = T.axis.remap("SS", [i1, j])
                                B[vi, vj] = A[vi, vj] * T.float32(2.0)
        """,
    )


def test_several_blocks():
    sch = Schedule(two_blocks)
    sch.loop_partition(sch.get_loops("B")[0], [3])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            with T.block("B_i0_partition"):
                for i0 in range(3):
                    with T.block("B_i0"):
                        v = T.axis.spatial(3, i0)
                        B[v] = A[v] * T.float32(2.0)
                    with T.block("C_i0"):
                        v = T.axis.spatial(3, i0)
                        C[v] = B[v] + T.float32(1.0)
            with T.block("B_i1_partition"):
                for i1 in range(3, 8):
                    with T.block("B_i1"):
                        v = T.axis.spatial((3, 8), i1)
                        B[v] = A[v] * T.float32(2.0)
                    with T.block("C_i1"):
                        v = T.axis.spatial((3, 8), i1)
                        C[v] = B[v] + T.float32(1.0)
        """,
    )


def test_symbolic_extent():
    sch = Schedule(symbolic)
    (i,) = sch.get_loops("B")
    n = sch.get(i).extent
    with refuses(
        sch,
        "loop_partition: the factors [4, None] do not cut loop i of extent n: part 1 "
        "would have n - 4 iterations",
        hint=("give lengths whose sum is less than the extent, or None for one of them"),
    ):
        sch.loop_partition(i, [4, None])
    sch.loop_partition(i, [n // 4 * 4, None])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            T.reads(A[0:n])
            T.writes(B[0:n])
            with T.block("B_i0_partition"):
                for i0 in range(n // 4 * 4):
                    with T.block("B_i0"):
                        v = T.axis.spatial(n, i0)
                        B[v] = A[v] * T.float32(2.0)
            with T.block("B_i1_partition"):
                for i1 in range(n // 4 * 4, n // 4 * 4 + (n - n // 4 * 4)):
                    with T.block("B_i1"):
                        v = T.axis.spatial(n, i1)
                        B[v] = A[v] * T.float32(2.0)
        """,
    )


def test_the_parts_are_scheduled_apart():
    sch = Schedule(copy_2d(9, 4))
    i, _j = sch.get_loops("B")
    main, _rest = sch.loop_partition(i, [8])
    sch.parallel(main)
    sch.vectorize(sch.get_loops("B_i0")[1])
    sch.unroll(sch.get_loops("B_i1")[1])
    becomes(
        sch,
        """
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            with T.block("B_i0_partition"):
                for i0 in T.parallel(8):
                    for j in T.vectorized(4):
                        with T.block("B_i0"):
                            v_i, v_j = T.axis.remap("SS", [i0, j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
            with T.block("B_i1_partition"):
                for i1 in range(8, 9):
                    for j in T.unroll(4):
                        with T.block("B_i1"):
                            v_i, v_j = T.axis.remap("SS", [i1, j])
                            B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )
    for step in range(1, sch.position):
        sch.goto(step)
        same_numbers(only(sch.steps[0].mod), only(sch.mod))


def test_the_old_handles_are_gone():
    sch = Schedule(copy_2d())
    B, (i, j) = sch.get_block("B"), sch.get_loops("B")
    sch.loop_partition(i, [4])
    assert repr(B) == "block B, taken by step 1 (loop_partition)"
    assert repr(j) == "loop j, taken by step 1 (loop_partition)"


def test_refusals():
    sch = Schedule(elementwise(16))
    (i,) = sch.get_loops("B")
    for factors in ([16], [10, None, 6], [0, 4], [-3, 4]):
        with refuses(
            sch,
            f"loop_partition: the factors {factors} do not cut loop i of extent 16: part "
            + {
                16: "1 would have 0",
                10: "1 would have 0",
                0: "0 would have 0",
                -3: "0 would have -3",
            }[factors[0]]
            + " iterations",
            hint="give lengths whose sum is less than the extent, or None for one of them",
        ):
            sch.loop_partition(i, factors)
    with refuses(sch, "loop_partition: more than one of the factors [None, None] is None"):
        sch.loop_partition(i, [None, None])
    sch.bind(i, "threadIdx.x")
    with refuses(
        sch,
        "loop_partition: loop i is bound to threadIdx.x",
        hint=("loop_partition first, bind afterwards"),
    ):
        sch.loop_partition(i, [4])
    (j,) = sch.get_loops("C")
    sch.annotate(j, "pragma", 1)
    with refuses(
        sch,
        "loop_partition: loop i is annotated with pragma",
        hint=("loop_partition first, annotate afterwards"),
    ):
        sch.loop_partition(j, [4])


def test_axes_that_do_not_start_at_zero():
    for step in (
        lambda sch: sch.blockize(sch.get_loops("B_i1")[1]),
        lambda sch: sch.blockize(sch.get_loops("B_i1")[1], preserve_unit_iters=False),
        lambda sch: sch.blockize(["B_i1"], preserve_unit_iters=False),
        lambda sch: sch.cache_read("B_i1", 0, "local"),
        lambda sch: sch.cache_write("B_i1", 0, "local"),
        lambda sch: sch.reorder(*reversed(sch.get_loops("B_i1"))),
        lambda sch: sch.split(sch.get_loops("B_i1")[1], [None, 3]),
        lambda sch: sch.loop_partition(sch.get_loops("B_i1")[1], [1]),
        lambda sch: sch.write_at(sch.get_loops("B_i1")[0], "B_i1", 0, "local"),
        lambda sch: sch.read_at(sch.get_loops("B_i1")[0], "B_i1", 0, "local"),
    ):
        for first in (4, 7):
            sch = Schedule(copy_2d(8, 8))
            sch.loop_partition(sch.get_loops("B")[0], [first])
            step(sch)
            Schedule(sch.mod)
            same_numbers(only(sch.steps[0].mod), only(sch.mod))
            replays(sch)
    sch = Schedule(copy_2d(8, 8))
    sch.loop_partition(sch.get_loops("B")[0], [4])
    B = sch.get_block("B_i1")
    with refuses(
        sch, "reindex: block B_i1 cannot be copied for: its axis v_i starts at 4, not at 0"
    ):
        sch.reindex(B, ("read", 0))
    with refuses(
        sch,
        "transform_block_layout: block B_i1 cannot be reordered: its axis v_i starts at "
        "4, not at 0",
    ):
        sch.transform_block_layout(B, lambda i, j: (j, i))


def test_regions_of_the_blocks_around_are_not_said_by_hand():
    sch = Schedule(copy_2d())
    sch.loop_partition(sch.get_loops("B")[1], [4])
    common = sch.get_block("B_j_common")
    region = sch.get(common).reads[0].region
    with refuses(
        sch,
        "annotate_buffer_access: the ranges use i, which is no axis of block B_j_common",
    ):
        sch.annotate_buffer_access(
            common, 0, "read", lambda: [(r.min, r.min + r.extent) for r in region]
        )


def test_an_opaque_axis_keeps_the_init():
    """An init waits for the first step of reduce axes alone; this one was taken away."""

    @T.prim_func
    def sums(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 3):
            with T.block("B"):
                v = T.axis.opaque(4, i)
                r = T.axis.reduce(3, k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, r]

    sch = Schedule(sums)
    sch.loop_partition(sch.get_loops("B")[0], [None, 1])
    same_numbers(sums, only(sch.mod))
    assert str(sch.mod).count("T.init()") == 2
