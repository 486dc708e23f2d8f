"""What a buffer is and what blocks say of it: dtypes, separators, regions."""

from __future__ import annotations

from itertools import product
from textwrap import dedent

import numpy as np
import pytest

from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.ir.dtype import dtype
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import IndexMap, Var
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.primitives.set_dtype import holds
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    only,
    refuses,
    replays,
    softmax,
    stencil,
    text,
)


@T.prim_func
def upsample(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("up"):
            v = T.axis.spatial(16, i)
            B[v] = A[T.Cast("int32", T.floor(T.Cast("float32", v) * T.float32(0.5)))]


def symbolic_rows():
    """B = A * 2, C = B + 1, over a number of rows that is not known"""
    n = Var("n", dtype("int32"))
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 4), lambda i, j: B[i, j] + 1.0, name="C")
    return te.create_prim_func([A, C])


def becomes_something_else(sch: Schedule, expected: str) -> None:
    """The program has this body, made again by its trace; what it computes may differ."""
    assert text(sch) == dedent(expected).strip()
    replays(sch)


def test_set_dtype():
    sch = Schedule(elementwise(4))
    sch.set_dtype("B", 0, "float64")
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,), "float64")
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = T.Cast("float64", A[v_i] * T.float32(2.0))
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = T.Cast("float32", B[v_i]) + T.float32(1.0)
        """,
    )


def test_set_dtype_of_a_reduction_with_several_readers():
    sch = Schedule(softmax(2, 3))
    sch.set_dtype("E", "E", "float64")
    sch.set_dtype("S", 0, "float64")
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3), "float64")
        S = T.alloc_buffer((2,), "float64")
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.Cast("float64", T.exp(A[v_i, v_j] - M[v_i]))
        for i, r in T.grid(2, 3):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i] = T.float64(0.0)
                S[v_i] = T.Cast("float64", T.Cast("float32", S[v_i]) + T.Cast("float32", E[v_i, v_r]))
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.Cast("float32", E[v_i, v_j]) / T.Cast("float32", S[v_i])
        """,  # noqa: E501
    )


def test_set_dtype_of_a_symbolic_shape():
    sch = Schedule(symbolic_rows())
    sch.set_dtype("B", 0, "float64")
    becomes(
        sch,
        """
        B = T.alloc_buffer((n, 4), "float64")
        for i, j in T.grid(n, 4):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = T.Cast("float64", A[v_i, v_j] * T.float32(2.0))
        for i, j in T.grid(n, 4):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = T.Cast("float32", B[v_i, v_j]) + T.float32(1.0)
        """,
    )


def test_unsafe_set_dtype():
    sch = Schedule(elementwise(4))
    sch.unsafe_set_dtype("B", 0, "float16")
    becomes_something_else(
        sch,
        """
        B = T.alloc_buffer((4,), "float16")
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                T.reads(A[v_i])
                T.writes(B[v_i])
                B[v_i] = T.Cast("float16", A[v_i] * T.float32(2.0))
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                T.reads(B[v_i])
                T.writes(C[v_i])
                C[v_i] = T.Cast("float32", B[v_i]) + T.float32(1.0)
        """,
    )


def test_set_axis_separator():
    sch = Schedule(softmax(2, 3))
    sch.set_axis_separator("E", ("write", 0), [1])
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3), axis_separators=[1])
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
        for i, r in T.grid(2, 3):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_set_axis_separator_of_a_parameter():
    sch = Schedule(copy_2d(4, 4))
    sch.set_axis_separator("B", "A", [1])
    becomes(
        sch,
        """
        for i, j in T.grid(4, 4):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_unsafe_hide_buffer_access():
    sch = Schedule(softmax(2, 3))
    sch.unsafe_hide_buffer_access("D", "read", [0])
    becomes_something_else(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                T.reads(A[v_i, v_k])
                T.writes(M[v_i])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[v_i, v_j], M[v_i])
                T.writes(E[v_i, v_j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
        for i, r in T.grid(2, 3):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                T.reads(E[v_i, v_r])
                T.writes(S[v_i])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(S[v_i])
                T.writes(D[v_i, v_j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_annotate_buffer_access():
    sch = Schedule(upsample)
    sch.annotate_buffer_access("up", 0, "read", lambda v: [(v // 2, v // 2 + 1)])
    becomes(
        sch,
        """
        for i in range(16):
            with T.block("up"):
                v = T.axis.spatial(16, i)
                T.reads(A[v // 2])
                T.block_attr({"explicit_read_region": [0]})
                B[v] = A[T.Cast("int32", T.floor(T.Cast("float32", v) * T.float32(0.5)))]
        """,
    )


def test_annotate_buffer_access_wider_than_needed():
    sch = Schedule(stencil(6))
    ranges = lambda v: [(v, v + 4)]
    sch.annotate_buffer_access("C", 0, "read", ranges)
    becomes(
        sch,
        """
        B = T.alloc_buffer((6,))
        for i in range(6):
            with T.block("B"):
                v_i = T.axis.spatial(6, i)
                B[v_i] = A[v_i] * T.float32(2.0)
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                T.reads(B[v_i:v_i + 4])
                T.block_attr({"explicit_read_region": [0]})
                C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]
        """,
    )


def test_set_dtype_refusals():
    sch = Schedule(elementwise(4))
    with refuses(
        sch,
        "set_dtype: float16 does not hold every value of float32, which B has",
        hint="unsafe_set_dtype changes it all the same, and with it the results",
    ):
        sch.set_dtype("B", 0, "float16")
    with refuses(
        sch,
        "unsafe_set_dtype: C, which block C writes, is a parameter",
        hint="cache_write it, and change the dtype of the copy",
    ):
        sch.unsafe_set_dtype("C", 0, "float16")
    with refuses(sch, "unsafe_set_dtype: a buffer cannot hold elements of dtype handle"):
        sch.unsafe_set_dtype("B", 0, "handle")
    with pytest.raises(ScheduleError, match="unsafe_set_dtype: .*floaty"):
        sch.unsafe_set_dtype("B", 0, "floaty")


def test_set_dtype_refuses_where_a_pointer_is_passed_on():
    @T.prim_func
    def pointed(B: T.Buffer((4,), "float32")):
        A = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("A"):
                v = T.axis.spatial(4, i)
                A[v] = T.float32(1)
        with T.block("B"):
            T.reads(A[0:4])
            T.writes(B[0:4])
            T.evaluate(T.call_packed("copy", A.data, B.data))

    sch = Schedule(pointed)
    with refuses(
        sch,
        "set_dtype: block B passes on a pointer to A, behind which float32 is expected",
    ):
        sch.set_dtype("A", 0, "float64")


def test_a_dtype_holds_another_where_no_value_is_lost():
    kinds = [
        dtype(x)
        for x in "bool int8 uint8 int16 uint16 float16 bfloat16 float8_e4m3fn float8_e5m2".split()
    ]
    for wide, narrow in product(kinds, kinds):
        values = _values(narrow)
        with np.errstate(all="ignore"):
            kept = values.astype(wide.numpy).astype(narrow.numpy)
        same = bool((kept.view("u1") == values.view("u1")).all())
        assert not holds(wide, narrow) or same, (wide, narrow)
        if narrow != "bool" and not (wide == "bool"):
            assert holds(wide, narrow) == _exact(wide, values), (wide, narrow)


def _values(kind) -> np.ndarray:
    """All finite values of a small dtype."""
    if kind == "bool":
        return np.array([False, True])
    bits = np.arange(1 << kind.bits, dtype=f"u{kind.bits // 8}").view(kind.numpy)
    with np.errstate(all="ignore"):
        return bits[np.isfinite(bits.astype("float64"))]


def _exact(wide, values: np.ndarray) -> bool:
    """Whether every value is one of the wide dtype, compared as numbers."""
    with np.errstate(all="ignore"):
        numbers = values.astype("float64")
    if wide.is_integer:
        ends = np.iinfo(wide.numpy)
        inside = (numbers >= ends.min) & (numbers <= ends.max) & (numbers == np.floor(numbers))
        return bool(inside.all())
    with np.errstate(all="ignore"):
        return bool((values.astype(wide.numpy).astype("float64") == numbers).all())


def test_rounding_shows_after_unsafe_set_dtype():
    sch = Schedule(elementwise(2))
    sch.unsafe_set_dtype("B", 0, "int8")
    a, c = np.array([1.3, -2.6], "float32"), np.zeros(2, "float32")
    run_prim_func(only(sch.mod), [a, c])
    np.testing.assert_array_equal(c, np.array([3.0, -4.0], "float32"))


def test_set_axis_separator_refusals():
    sch = Schedule(softmax(2, 3))
    with refuses(
        sch, "set_axis_separator: [3] cannot part the 2 dimensions of E: 3 is beyond them"
    ):
        sch.set_axis_separator("E", ("write", 0), [3])
    with refuses(
        sch, "set_axis_separator: [2, 1] cannot part the 2 dimensions of E: they must not fall"
    ):
        sch.set_axis_separator("E", ("write", 0), [2, 1])
    with refuses(
        sch,
        "set_axis_separator: ('write', 1) is no buffer of block E",
        hint='("read", n) of A, M, or ("write", n) of E',
    ):
        sch.set_axis_separator("E", ("write", 1), [1])


def test_axis_separators_of_a_parameter_are_printed_and_taken_away():
    sch = Schedule(copy_2d(4, 4))
    sch.set_axis_separator("B", "A", [1])
    assert only(sch.mod).buffers[0].axis_separators == (1,)
    assert "axis_separators=[1]" in only(sch.mod).script()
    sch.set_axis_separator("B", "A", None)
    assert only(sch.mod).script() == only(sch.steps[0].mod).script()


def test_a_hidden_access_no_longer_holds_its_producer():
    sch = Schedule(elementwise(4))
    assert [repr(x) for x in sch.get_producers("C")] == ["block B"]
    sch.unsafe_hide_buffer_access("C", "read", [0])
    assert sch.get_producers("C") == []


def test_hide_refusals():
    sch = Schedule(elementwise(4))
    with refuses(sch, 'unsafe_hide_buffer_access: buf_type is \'reads\', not "read" or "write"'):
        sch.unsafe_hide_buffer_access("C", "reads", [0])
    with refuses(
        sch,
        "unsafe_hide_buffer_access: block C has no region 1 among its reads",
        hint="it reads B",
    ):
        sch.unsafe_hide_buffer_access("C", "read", [0, 1])


def test_an_annotated_region_says_what_compute_at_needs():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")

    def halved(i):
        place = T.Cast("int32", T.floor(T.Cast("float32", i) * T.float32(0.5)))
        return B[place]

    C = te.compute((16,), halved, name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    loop = sch.get_loops("C")[0]
    sch.annotate_buffer_access("C", 0, "read", lambda v: [(v // 2, v // 2 + 1)])
    sch.compute_at("B", loop)
    assert "v_i = T.axis.spatial(8, i // 2)" in text(sch)
    becomes(sch, text(sch))


def test_more_may_be_said_than_is_written_and_is_not_believed():
    sch = Schedule(upsample)
    sch.annotate_buffer_access("up", 0, "write", lambda v: [(v, v + 2)])
    assert "T.writes(B[v:v + 2])" in text(sch)
    with refuses(
        sch,
        "cache_write: block up does not store all that it says it writes of B, and the copy would "
        "write them always",
    ):
        sch.cache_write("up", 0, "local")


def test_annotate_refusals():
    sch = Schedule(upsample)
    with refuses(
        sch,
        "annotate_buffer_access: range 0 of A cannot be v // 2 + 1..v // 2 + 3: at v = 0 block up "
        "touches index 0",
        hint='a schedule with check="none" trusts the region',
    ):
        sch.annotate_buffer_access("up", 0, "read", lambda v: [(v // 2 + 1, v // 2 + 3)])
    with refuses(sch, "annotate_buffer_access: 2 ranges are given, A has 1 dimensions"):
        sch.annotate_buffer_access("up", 0, "read", lambda v: [v, v])
    with refuses(sch, 'annotate_buffer_access: buf_type is \'reads\', not "read" or "write"'):
        sch.annotate_buffer_access("up", 0, "reads", lambda v: [v])
    with refuses(
        sch,
        "annotate_buffer_access: gen_new_ranges does not take the 1 axes of block up: a range is "
        "(begin, end), not 3 numbers",
    ):
        sch.annotate_buffer_access("up", 0, "read", lambda v: [(v, v, v)])


def test_ranges_are_said_of_axes_not_of_loops():
    sch = Schedule(upsample)
    loop = sch.get(sch.get_loops("up")[0]).loop_var
    with refuses(
        sch,
        "annotate_buffer_access: the ranges use i, which is no axis of block up",
    ):
        sch.annotate_buffer_access("up", 0, "read", lambda v: [(loop // 2, loop // 2 + 1)])


def test_a_region_that_depends_on_data_is_not_believed():
    @T.prim_func
    def gather(
        A: T.Buffer((8,), "float32"), I: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[I[v]]

    sch = Schedule(gather)
    index = [r.buffer.name for r in sch.get(sch.get_block("B")).reads].index("A")
    with refuses(
        sch,
        "annotate_buffer_access: range 0 of A cannot be v..v + 2: the indices of block B depend on "
        "more than its axes",
        hint='a schedule with check="none" trusts the region',
    ):
        sch.annotate_buffer_access("B", index, "read", lambda v: [(v, v + 2)])
    trusting = Schedule(gather, check="none")
    trusting.annotate_buffer_access("B", index, "read", lambda v: [(v, v + 2)])
    assert "A[v:v + 2]" in text(trusting)


def test_separators_must_have_a_map_of_their_own():
    with pytest.raises(MLCError) as caught:
        IndexMap.from_func(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    assert str(caught.value) == ("the map has axis separators\nhint: from_func_with_separators")
    made, places = IndexMap.from_func_with_separators(
        lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j // 4, IndexMap.AXIS_SEPARATOR, j % 4]
    )
    assert (len(made.final_indices), places) == (3, [1, 2])


def test_views_move_with_their_buffer():
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * T.float32(2.0)
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            view = T.match_buffer(B[v:v + 1], (1,), offset_factor=1)
            C[v] = view[0] + T.float32(1.0)
""")
    sch = Schedule(func)
    sch.set_scope("B", 0, "shared")
    (match,) = sch.get(sch.get_block("C")).match_buffers
    assert match.buffer.scope == match.source.buffer.scope == "shared"
    assert 'scope="shared"' in sch.mod["main"].script().split("T.match_buffer(")[1].split("\n")[0]
    replays(sch)


def test_allocations_of_one_name_are_told_apart():
    """By themselves, or by numbers that come after those of the outputs; so does a trace."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16, 2), "float32")):
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            T.reads(A[v])
            T.writes(C[v, 0:2])
            work = T.alloc_buffer((1,))
            work[0] = A[v] * T.float32(2.0)
            C[v, 0] = work[0]
            work = T.alloc_buffer((1,))
            work[0] = A[v] + T.float32(1.0)
            C[v, 1] = work[0]
""")
    sch = Schedule(func)
    first, other = sch.get(sch.get_block("C")).alloc_buffers
    assert (first.name, other.name) == ("work", "work")
    sch.set_scope("C", other, "local")
    sch.set_scope("C", 1, "shared")
    assert [b.scope for b in sch.get(sch.get_block("C")).alloc_buffers] == ["shared", "local"]
    replays(sch)
    message = "set_scope: block C has no buffer work among its writes"
    with refuses(sch, message, "it writes C"):
        sch.set_scope("C", "work", "local")
