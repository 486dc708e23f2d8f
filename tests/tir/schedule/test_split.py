"""split: whole programs, predicates, symbolic extents, refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.script import tir as T
from mlcnb.tir import Var
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    only,
    refuses,
    replays,
    same_numbers,
    symbolic_chain,
    symbolic_matmul_relu,
    text,
    two_consumers,
)


def test_two_factors():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    i0, i1 = sch.split(i, [2, 4])
    assert repr(i0) == "loop i_0 in 0..2 of block B"
    assert repr(i1) == "loop i_1 in 0..4 of block B"
    becomes(
        sch,
        """
        for i_0, i_1, j in T.grid(2, 4, 8):
            with T.block("B"):
                v_i = T.axis.spatial(8, i_0 * 4 + i_1)
                v_j = T.axis.spatial(8, j)
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_none_is_what_remains():
    sch = Schedule(matmul(n=8))
    i, _j, _k = sch.get_loops("C")
    sch.split(i, [2, None, 2])
    becomes(
        sch,
        """
        for i_0, i_1, i_2, j, k in T.grid(2, 2, 2, 4, 4):
            with T.block("C"):
                v_i = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + i_2)
                v_j, v_k = T.axis.remap("SR", [j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_nested_splits_print_as_one_sum():
    sch = Schedule(elementwise(64))
    (i,) = sch.get_loops("B")
    _i0, i1 = sch.split(i, [None, 32])
    sch.split(i1, [4, None])
    becomes(
        sch,
        """
        B = T.alloc_buffer((64,))
        for i_0, i_1_0, i_1_1 in T.grid(2, 4, 8):
            with T.block("B"):
                v_i = T.axis.spatial(64, i_0 * 32 + i_1_0 * 8 + i_1_1)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(64):
            with T.block("C"):
                v_i = T.axis.spatial(64, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_factors_that_do_not_divide_get_a_predicate():
    sch = Schedule(copy_2d(7, 5))
    i, j = sch.get_loops("B")
    sch.split(i, [None, 4])
    sch.split(j, [2, None])
    becomes(
        sch,
        """
        for i_0, i_1, j_0, j_1 in T.grid(2, 4, 2, 3):
            with T.block("B"):
                v_i = T.axis.spatial(7, i_0 * 4 + i_1)
                v_j = T.axis.spatial(5, j_0 * 3 + j_1)
                T.where(i_0 * 4 + i_1 < 7 and j_0 * 3 + j_1 < 5)
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_reduction_with_predicate():
    sch = Schedule(matmul(k=5))
    sch.split(sch.get_loops("C")[2], [None, 2])
    becomes(
        sch,
        """
        for i, j, k_0, k_1 in T.grid(4, 4, 3, 2):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                v_k = T.axis.reduce(5, k_0 * 2 + k_1)
                T.where(k_0 * 2 + k_1 < 5)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_unit_iters_are_kept_or_dropped():
    for keep, bound in ((True, "i_0 * 1 + i_1"), (False, "i_0")):
        sch = Schedule(elementwise(4))
        sch.split(sch.get_loops("B")[0], [4, 1], preserve_unit_iters=keep)
        assert f"v_i = T.axis.spatial(4, {bound})".replace(" * 1", "") in text(sch)


def test_symbolic_extent():
    n = Var("n", dtype("int64"))
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    sch.split(sch.get_loops("B")[0], [None, 4])
    assert text(sch).startswith(
        "for i_0, i_1 in T.grid((n + T.int64(3)) // T.int64(4), T.int64(4)):"
    )


def test_predication_can_be_left_out():
    sch = Schedule(elementwise(6))
    sch.split(sch.get_loops("B")[0], [None, 4], disable_predication=True)
    assert "T.where" not in text(sch)


def test_drawn_factors():
    sch = Schedule(elementwise(16), seed=3)
    (i,) = sch.get_loops("B")
    a, b = sch.sample_perfect_tile(i, n=2)
    sch.split(i, [a, b])
    sizes = [int(sch.get(x)) for x in (a, b)]
    assert sizes[0] * sizes[1] == 16
    i0, i1 = sch.get_loops("B")
    assert [int(sch.get(x).extent) for x in (i0, i1)] == sizes


def test_refusals():
    sch = Schedule(elementwise(16))
    (i,) = sch.get_loops("B")
    with refuses(
        sch,
        "split: factors [3, 5] make 15, which does not cover loop i of extent 16",
        hint="use None for one factor",
    ):
        sch.split(i, [3, 5])
    with refuses(
        sch,
        "split: more than one of the factors [None, None] is None",
    ):
        sch.split(i, [None, None])
    with refuses(
        sch,
        "split: factor 0 of [0, 16] is not positive",
    ):
        sch.split(i, [0, 16])


def test_bound_and_annotated_loops_stay_whole():
    sch = Schedule(elementwise(16))
    (i,) = sch.get_loops("B")
    sch.bind(i, "threadIdx.x")
    with refuses(
        sch,
        "split: loop i is bound to threadIdx.x",
        hint="split first, bind afterwards",
    ):
        sch.split(i, [4, 4])
    (j,) = sch.get_loops("C")
    sch.annotate(j, "pragma", 1)
    with refuses(
        sch,
        "split: loop i is annotated with pragma",
        hint="split first, annotate afterwards",
    ):
        sch.split(j, [4, 4])


def test_symbolic_program():
    sch = Schedule(symbolic_chain())
    sch.split(sch.get_loops("B")[0], [None, 4])
    becomes(
        sch,
        """
        B = T.alloc_buffer((n,))
        for i_0, i_1 in T.grid((n + T.int64(3)) // T.int64(4), T.int64(4)):
            with T.block("B"):
                v_i = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                T.where(i_0 * T.int64(4) + i_1 < n)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(n):
            with T.block("C"):
                v_i = T.axis.spatial(n, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_symbolic_reduction():
    sch = Schedule(symbolic_matmul_relu())
    sch.split(sch.get_loops("C")[2], [2, None])
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i, j, k_0, k_1 in T.grid(n, T.int64(4), T.int64(2), (n + T.int64(1)) // T.int64(2)):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                v_k = T.axis.reduce(n, k_0 * ((n + T.int64(1)) // T.int64(2)) + k_1)
                T.where(k_0 * ((n + T.int64(1)) // T.int64(2)) + k_1 < n)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_symbolic_factors():
    sch = Schedule(symbolic_matmul_relu())
    i, _j, _k = sch.get_loops("C")
    n = sch.get(i).extent
    with refuses(
        sch,
        "split: factors [n // 4, 4] cannot be shown to cover loop i of extent n",
        hint="use None for one factor",
    ):
        sch.split(i, [n // 4, 4])
    a, b = sch.split(i, [None, n // 3 + 1])
    assert repr(b) == "loop i_1 in 0..n // 3 + 1 of block C"
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)
    sch.undo()
    sch.split(i, [n, 1])
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i_0, i_1, j, k in T.grid(n, T.int64(1), T.int64(4), n):
            with T.block("C"):
                v_i = T.axis.spatial(n, i_0 + i_1)
                v_j, v_k = T.axis.remap("SR", [j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_none_in_every_place():
    for factors in ([None, 4, 2], [4, None, 2], [4, 2, None], [-1, 8]):
        sch = Schedule(elementwise(24))
        loops = sch.split(sch.get_loops("B")[0], factors)
        assert len(loops) == len(factors)
        same_numbers(only(sch.steps[0].mod), only(sch.mod))
        replays(sch)


def test_factor_larger_than_the_loop():
    sch = Schedule(elementwise(6))
    sch.split(sch.get_loops("B")[0], [None, 16])
    becomes(
        sch,
        """
        B = T.alloc_buffer((6,))
        for i_0, i_1 in T.grid(1, 16):
            with T.block("B"):
                v_i = T.axis.spatial(6, i_0 * 16 + i_1)
                T.where(i_0 * 16 + i_1 < 6)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(6):
            with T.block("C"):
                v_i = T.axis.spatial(6, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_all_blocks_under_the_loop_are_guarded():
    sch = Schedule(two_consumers(10))
    (i,) = sch.get_loops("C")
    sch.reverse_compute_at("D", i)
    sch.split(i, [None, 4])
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i in range(10):
            with T.block("B"):
                v_i = T.axis.spatial(10, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i_0, i_1 in T.grid(3, 4):
            with T.block("C"):
                v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 10)
                C[v_i] = B[v_i] + T.float32(1.0)
            with T.block("D"):
                v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 10)
                D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_a_predicate_over_a_predicate():
    sch = Schedule(elementwise(10))
    i_0, i_1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.split(i_1, [None, 3])
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0, i_1_0, i_1_1 in T.grid(3, 2, 3):
            with T.block("B"):
                v_i = T.axis.spatial(10, i_0 * 4 + i_1_0 * 3 + i_1_1)
                T.where(i_0 * 4 + i_1_0 * 3 + i_1_1 < 10 and i_1_0 * 3 + i_1_1 < 4)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_the_parts_of_a_loop_that_does_not_start_at_zero_do():
    sch = Schedule(elementwise(16))
    _, part = sch.loop_partition(sch.get_loops("B")[0], [6])
    sch.split(part, [None, 4])
    assert "for i1_0, i1_1 in T.grid(3, 4):" in str(sch)
    assert "v_i = T.axis.spatial((6, 16), i1_0 * 4 + i1_1 + 6)" in str(sch)
    assert "T.where(i1_0 * 4 + i1_1 < 10)" in str(sch)
    same_numbers(elementwise(16), only(sch.mod))
    replays(sch)


def test_odd_factors():
    sch = Schedule(elementwise(16))
    (i,) = sch.get_loops("B")
    with refuses(sch, "split: no factors given"):
        sch.split(i, [])
    with refuses(sch, "split: factor 2.5 is no integer"):
        sch.split(i, [2.5, None])
    with refuses(sch, "split: factor 4 is no integer"):
        sch.split(i, ["4", None])
    with refuses(sch, "split: factor -4 of [-4, None] is not positive"):
        sch.split(i, [-4, None])


def test_one_number_is_no_list_of_factors():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    message = "split: factors are a list, one for each new loop, not 4"
    with refuses(sch, message, hint="factors=[None, 4]"):
        sch.split(i, 4)


def test_a_factor_that_is_the_rest_rounded_up():
    """`T.ceildiv(n, f)` and `f` cover a loop of n, also where f is known to the machine only."""
    sch = Schedule(copy_2d())
    lanes = T.vscale() * 4
    sch.split(sch.get_loops("B")[0], [T.ceildiv(8, lanes), lanes])
    made = text(sch)
    assert "T.grid((T.vscale() * 4 + 7) // (T.vscale() * 4), T.vscale() * 4, 8)" in made
    assert "T.where(i_0 * (T.vscale() * 4) + i_1 < 8)" in made
    symbolic = Schedule(symbolic_chain())
    loop = symbolic.get_loops("B")[0]
    extent = symbolic.get(loop).extent
    symbolic.split(loop, [T.ceildiv(extent, 16), 4, 4])
    same_numbers(symbolic_chain(), symbolic.mod["main"])


def test_a_factor_that_may_be_zero_covers_nothing():
    sch = Schedule(copy_2d())
    loop = sch.get_loops("B")[0]
    k = Var("k", dtype("int32"))
    with refuses(
        sch,
        "split: factors [(8 + (k - 1)) // k, k] cannot be shown to cover loop i of extent 8",
        hint="use None for one factor",
    ):
        sch.split(loop, [T.ceildiv(8, k), k])


def test_let_that_is_the_loop_alone():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.LetStmt(i) as x:
                with T.block("A"):
                    v = T.axis.spatial(16, x)
                    A[v] = v

    sch = Schedule(func)
    sch.split(*sch.get_loops("A"), [4, 4])
    becomes(
        sch,
        """
        for i_0, i_1 in T.grid(4, 4):
            x: T.int32 = i_0 * 4 + i_1
            with T.block("A"):
                v = T.axis.spatial(16, x)
                A[v] = v
        """,
    )
    same_numbers(func, sch.mod["main"])


def test_let_and_mask_of_an_axis_that_blockize_takes_apart():
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                with T.LetStmt(v) as x:
                    B.vstore([T.Ramp(v * 4, 1, 4)], A[T.Ramp(v * 4, 1, 4)] + T.Broadcast(x, 4),
                             predicate=T.Broadcast(v < 12, 4))  # fmt: skip

    sch = Schedule(func)
    sch.blockize(sch.split(*sch.get_loops("B"), [4, 4])[1])
    assert "x: T.int32 = v_o * 4 + v_i" in sch.mod.script()
    assert "v < 12" not in sch.mod.script()
    same_numbers(func, sch.mod["main"])
