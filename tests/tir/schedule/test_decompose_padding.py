"""decompose_padding: whole programs and refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    elementwise,
    padded_pool,
    refuses,
    same_numbers,
    text,
)


def padded(n: int = 8, before: int = 3, after: int = 1, value: float = 0.0):
    """A with `before` and `after` elements of padding around it."""
    A = te.placeholder((n,), name="A")

    def pad(i):
        return te.if_then_else(te.all(i >= before, i < n + before), A[i - before], value)

    return te.create_prim_func([A, te.compute((n + before + after,), pad, name="P")])


@T.prim_func
def batch(
    x: T.Buffer((T.int64(1), T.int64(6), T.int64(4)), "int32"),
    y: T.Buffer((T.int64(1), T.int64(8), T.int64(4)), "int32"),
):
    for b, i, j in T.grid(T.int64(1), T.int64(8), T.int64(4)):
        with T.block("block"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            y[vb, vi, vj] = T.if_then_else(vi < T.int64(6), x[vb, vi, vj], 0)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n + 3,), "float32")
    for i in range(n + 3):
        with T.block("B"):
            v = T.axis.spatial(n + 3, i)
            B[v] = T.if_then_else(v >= 2 and v < n + 2, A[v - 2], T.float32(0))


@T.prim_func
def dilated(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.if_then_else(v % 2 == 0, A[v // 2], T.float32(0))


@T.prim_func
def diagonal(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.if_then_else(v + w < 4, A[v, w], T.float32(0))


@T.prim_func
def with_another(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = T.if_then_else(v < 2, A[v], A[v] * T.float32(2))


@T.prim_func
def always(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = T.if_then_else(v < 7, A[v], T.float32(0))


@T.prim_func
def never(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = T.if_then_else(v >= 3 and v < 2, A[v], T.float32(0))


@T.prim_func
def from_before(A: T.Buffer((6,), "float32"), B: T.Buffer((2, 8), "float32")):
    P = T.alloc_buffer((8,))
    for o in range(2):
        for i in range(8):
            with T.block("B"):
                v, w = T.axis.remap("SS", [o, i])
                B[v, w] = T.if_then_else(v > 0, P[w], T.float32(1))
        for i in range(8):
            with T.block("P"):
                w = T.axis.spatial(8, i)
                P[w] = T.if_then_else(w >= 2, A[w - 2], T.float32(0))


def test_one_dimension():
    sch = Schedule(padded())
    P = sch.get_block("P")
    (i,) = sch.get_loops(P)
    assert sch.can_decompose_padding(P, i)
    filling = sch.decompose_padding(P, i)
    assert (repr(filling), repr(P), repr(i)) == (
        "block P_pad_const",
        "block P",
        "loop i in 0..8 of block P",
    )
    becomes(
        sch,
        """
        for i in range(12):
            with T.block("P_pad_const"):
                v_i = T.axis.spatial(12, i)
                P[v_i] = T.float32(0.0)
        for i in range(8):
            with T.block("P"):
                v_i = T.axis.spatial(8, i)
                P[v_i + 3] = A[v_i]
        """,
    )


def test_a_value_other_than_zero():
    sch = Schedule(padded(5, 1, 1, value=-1.5))
    sch.decompose_padding("P", sch.get_loops("P")[0])
    assert "P[v_i] = T.float32(-1.5)" in text(sch)
    becomes(
        sch,
        """
        for i in range(7):
            with T.block("P_pad_const"):
                v_i = T.axis.spatial(7, i)
                P[v_i] = T.float32(-1.5)
        for i in range(5):
            with T.block("P"):
                v_i = T.axis.spatial(5, i)
                P[v_i + 1] = A[v_i]
        """,
    )


def test_inside_a_loop():
    sch = Schedule(batch)
    sch.decompose_padding("block", sch.get_loops("block")[2])
    becomes(
        sch,
        """
        for b, i in T.grid(T.int64(1), T.int64(8)):
            for j in range(T.int64(4)):
                with T.block("block_pad_const"):
                    vb = T.axis.spatial(T.int64(1), T.int64(0))
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vb, vi, vj] = 0
            for j in range(T.int64(4)):
                with T.block("block"):
                    vb = T.axis.spatial(T.int64(1), T.int64(0))
                    vi = T.axis.spatial(T.int64(6), i)
                    vj = T.axis.spatial(T.int64(4), j)
                    T.where(i < T.int64(6))
                    y[vb, vi, vj] = x[vb, vi, vj]
        """,
    )


def test_two_dimensions():
    sch = Schedule(padded_pool(4))
    sch.decompose_padding("pad", sch.get_loops("pad")[0])
    becomes(
        sch,
        """
        pad = T.alloc_buffer((6, 6))
        for i, j in T.grid(6, 6):
            with T.block("pad_pad_const"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                pad[v_i, v_j] = T.float32(0.0)
        for i, j in T.grid(4, 4):
            with T.block("pad"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                pad[v_i + 1, v_j + 1] = A[v_i, v_j]
        for i, j, a, b in T.grid(4, 4, 3, 3):
            with T.block("C"):
                v_i, v_j, v_a, v_b = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + pad[v_i + v_a, v_j + v_b]
        """,
    )


def test_in_tiles():
    sch = Schedule(padded_pool(4))
    i, j, _a, _b = sch.get_loops("C")
    i_0, _ = sch.split(i, [2, 2])
    sch.compute_at("pad", i_0)
    sch.decompose_padding("pad", sch.get_loops("pad")[1])
    becomes(
        sch,
        """
        pad = T.alloc_buffer((6, 6))
        for i_0 in range(2):
            for ax0, ax1 in T.grid(4, 6):
                with T.block("pad_pad_const"):
                    v_i = T.axis.spatial(6, i_0 * 2 + ax0)
                    v_j = T.axis.spatial(6, ax1)
                    pad[v_i, v_j] = T.float32(0.0)
            for ax0, ax1 in T.grid(4, 4):
                with T.block("pad"):
                    v_i = T.axis.spatial(4, i_0 * 2 + ax0 - 1)
                    v_j = T.axis.spatial(4, ax1)
                    T.where(1 <= i_0 * 2 + ax0 and i_0 * 2 + ax0 < 5)
                    pad[v_i + 1, v_j + 1] = A[v_i, v_j]
            for i_1, j, a, b in T.grid(2, 4, 3, 3):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i_0 * 2 + i_1)
                    v_j, v_a, v_b = T.axis.remap("SRR", [j, a, b])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + pad[v_i + v_a, v_j + v_b]
        """,
    )


def test_filled_before_the_tiles():
    sch = Schedule(padded_pool(4))
    i, j, _a, _b = sch.get_loops("C")
    i_0, _ = sch.split(i, [2, 2])
    sch.compute_at("pad", i_0)
    sch.decompose_padding("pad", i_0)
    becomes(
        sch,
        """
        pad = T.alloc_buffer((6, 6))
        for i_0, ax0, ax1 in T.grid(2, 4, 6):
            with T.block("pad_pad_const"):
                v_i = T.axis.spatial(6, i_0 * 2 + ax0)
                v_j = T.axis.spatial(6, ax1)
                pad[v_i, v_j] = T.float32(0.0)
        for i_0 in range(2):
            for ax0, ax1 in T.grid(4, 4):
                with T.block("pad"):
                    v_i = T.axis.spatial(4, i_0 * 2 + ax0 - 1)
                    v_j = T.axis.spatial(4, ax1)
                    T.where(1 <= i_0 * 2 + ax0 and i_0 * 2 + ax0 < 5)
                    pad[v_i + 1, v_j + 1] = A[v_i, v_j]
            for i_1, j, a, b in T.grid(2, 4, 3, 3):
                with T.block("C"):
                    v_i = T.axis.spatial(4, i_0 * 2 + i_1)
                    v_j, v_a, v_b = T.axis.remap("SRR", [j, a, b])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + pad[v_i + v_a, v_j + v_b]
        """,
    )


def test_tiles_that_do_not_divide():
    sch = Schedule(padded_pool(5))
    sch.split(sch.get_loops("pad")[0], [None, 3])
    sch.decompose_padding("pad", sch.get_loops("pad")[0])
    becomes(
        sch,
        """
        pad = T.alloc_buffer((7, 7))
        for i_0, i_1, j in T.grid(3, 3, 7):
            with T.block("pad_pad_const"):
                v_i = T.axis.spatial(7, i_0 * 3 + i_1)
                v_j = T.axis.spatial(7, j)
                T.where(i_0 * 3 + i_1 < 7)
                pad[v_i, v_j] = T.float32(0.0)
        for i_0, i_1, j in T.grid(3, 3, 5):
            with T.block("pad"):
                v_i = T.axis.spatial(5, i_0 * 3 + i_1 - 1)
                v_j = T.axis.spatial(5, j)
                T.where(1 <= i_0 * 3 + i_1 and i_0 * 3 + i_1 < 6 and i_0 * 3 + i_1 < 7)
                pad[v_i + 1, v_j + 1] = A[v_i, v_j]
        for i, j, a, b in T.grid(5, 5, 3, 3):
            with T.block("C"):
                v_i, v_j, v_a, v_b = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + pad[v_i + v_a, v_j + v_b]
        """,
    )


def test_symbolic_extent():
    sch = Schedule(symbolic)
    sch.decompose_padding("B", sch.get_loops("B")[0])
    becomes(
        sch,
        """
        for i in range(n + 3):
            with T.block("B_pad_const"):
                v = T.axis.spatial(n + 3, i)
                B[v] = T.float32(0.0)
        for i in range(n):
            with T.block("B"):
                v = T.axis.spatial(n, i)
                B[v + 2] = A[v]
        """,
    )


def test_both_can_be_vectorized():
    sch = Schedule(padded(8, 4, 4))
    filling = sch.decompose_padding("P", sch.get_loops("P")[0])
    for block in (filling, "P"):
        _, inner = sch.split(sch.get_loops(block)[0], [None, 4])
        sch.vectorize(inner)
    becomes(
        sch,
        """
        for i_0 in range(4):
            for i_1 in T.vectorized(4):
                with T.block("P_pad_const"):
                    v_i = T.axis.spatial(16, i_0 * 4 + i_1)
                    P[v_i] = T.float32(0.0)
        for i_0 in range(2):
            for i_1 in T.vectorized(4):
                with T.block("P"):
                    v_i = T.axis.spatial(8, i_0 * 4 + i_1)
                    P[v_i + 4] = A[v_i]
        """,
    )


def test_refuses_what_is_no_padding():
    for func, block in (
        (elementwise(), "B"),
        (padded_pool(), "C"),
        (dilated, "B"),
        (diagonal, "B"),
        (with_another, "B"),
        (always, "B"),
    ):
        sch = Schedule(func)
        loop = sch.get_loops(block)[0]
        assert not sch.can_decompose_padding(block, loop)
    sch = Schedule(elementwise())
    (i,) = sch.get_loops("B")
    B = sch.get_block("B")
    with refuses(
        sch, "decompose_padding: block B is no padding: it is no single store of T.if_then_else"
    ):
        sch.decompose_padding(B, i)
    sch = Schedule(padded_pool())
    C, (c, *_) = sch.get_block("C"), sch.get_loops("C")
    with refuses(
        sch, "decompose_padding: block C is no padding: its axis v_a is reduce, not spatial"
    ):
        sch.decompose_padding(C, c)
    pad = sch.get_block("pad")
    with refuses(sch, "decompose_padding: loop i is not around block pad"):
        sch.decompose_padding(pad, c)
    sch = Schedule(dilated)
    B, (i,) = sch.get_block("B"), sch.get_loops("B")
    with refuses(
        sch,
        "decompose_padding: block B is no padding: a part of its condition is no bound "
        "of a single axis",
    ):
        sch.decompose_padding(B, i)
    sch = Schedule(diagonal)
    B, (i, _) = sch.get_block("B"), sch.get_loops("B")
    with refuses(
        sch,
        "decompose_padding: block B is no padding: a part of its condition is no bound "
        "of a single axis",
    ):
        sch.decompose_padding(B, i)
    sch = Schedule(with_another)
    B, (i,) = sch.get_block("B"), sch.get_loops("B")
    with refuses(sch, "decompose_padding: block B is no padding: what it pads with is no constant"):
        sch.decompose_padding(B, i)
    sch = Schedule(always)
    B, (i,) = sch.get_block("B"), sch.get_loops("B")
    with refuses(sch, "decompose_padding: block B is no padding: its condition always holds"):
        sch.decompose_padding(B, i)
    sch = Schedule(never)
    B, (i,) = sch.get_block("B"), sch.get_loops("B")
    with refuses(sch, "decompose_padding: block B is no padding: its condition never holds"):
        sch.decompose_padding(B, i)


def test_a_reader_of_an_earlier_iteration():
    """It has read before the loop that is filled anew: no rule says so, isl does."""
    sch = Schedule(from_before, check="rules")
    P, (_o, i) = sch.get_block("P"), sch.get_loops("P")
    with refuses(
        sch,
        "decompose_padding: block B may read elements of P that block P does not write "
        "in the same iteration",
    ):
        sch.decompose_padding(P, i)
    sch = Schedule(from_before)
    sch.decompose_padding(sch.get_block("P"), sch.get_loops("P")[1])
    assert sch.steps[-1].proof == "proved (islpy)"
    same_numbers(from_before, sch.mod["main"])
