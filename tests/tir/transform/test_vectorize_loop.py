"""VectorizeLoop: statements on vectors where that is the same, else a serial loop."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import register_func
from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import walk
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.stmt import For, ForKind
from mlcnb.tir.transform import VectorizeLoop
from tests.tir.transform.lowering import (
    check,
    check_lowering,
    interpreted,
    run_pass,
    same_bits,
    statements,
)


@T.prim_func
def scaled(
    A: T.Buffer((32,), "float32"), b: T.Buffer((4,), "float32"), B: T.Buffer((32,), "float32")
):
    for k in range(4):
        for j in T.vectorized(8):
            B[k * 8 + j] = A[k * 8 + j] * b[k] + T.Cast("float32", j)


def test_a_loop_becomes_a_statement():
    check(
        VectorizeLoop(),
        scaled,
        """
        for k in range(4):
            B[k * 8:k * 8 + 8] = A[k * 8:k * 8 + 8] * T.Broadcast(b[k], 8) + T.Cast("float32x8", T.Ramp(0, 1, 8))
        """,  # noqa: E501
    )


@T.prim_func
def tested_twice(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for k in range(4):
        for j in T.vectorized(8):
            B[k, j] = T.float32(0)
        for j in T.vectorized(8):
            if j < 5:
                if k > 1:
                    if A[k, j + 3] > T.float32(0):
                        B[k, j] = A[k, j + 3]


def test_tests_inside_of_one_another_become_one_mask():
    """One that all lanes share stood inside of the lanes' own: each was an element by itself."""
    lowered = run_pass(VectorizeLoop(), tested_twice)
    assert [n.loop_var.name for n in walk(lowered.body) if isinstance(n, For)] == ["k"]
    same_bits(tested_twice, lowered)
    check_lowering(tested_twice, tested_twice)


@T.prim_func
def masked(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.float32(0)
    for j in T.vectorized(8):
        if j < 5:
            B[j] = T.if_then_else(j > 1, A[j - 2], T.float32(1))


def test_a_branch_on_the_lane_becomes_a_mask():
    check(
        VectorizeLoop(),
        masked,
        """
        for i in range(8):
            B[i] = T.float32(0.0)
        B.vstore([T.Ramp(0, 1, 8)], T.Select(T.Ramp(0, 1, 8) > T.Broadcast(1, 8), A.vload([T.Ramp(-2, 1, 8)], predicate=T.Ramp(0, 1, 8) > T.Broadcast(1, 8) and T.Ramp(0, 1, 8) < T.Broadcast(5, 8)), T.Broadcast(T.float32(1.0), 8)), predicate=T.Ramp(0, 1, 8) < T.Broadcast(5, 8))
        """,  # noqa: E501
    )
    check_lowering(masked, masked)


@T.prim_func
def named(
    A: T.Buffer((64,), "float32"), b: T.Buffer((8,), "float32"), B: T.Buffer((64,), "float32")
):
    for k in range(8):
        for j in T.vectorized(8):
            B[k * 8 + j] = T.Let(
                x * x + y + T.exp(x),
                where={x: A[k * 8 + j] + T.float32(1), y: b[k]},
            )


def test_a_named_part_of_an_expression_becomes_a_vector():
    check(
        VectorizeLoop(),
        named,
        """
        for k in range(8):
            B[k * 8:k * 8 + 8] = T.Let(T.Let(x * x + T.Broadcast(y, 8) + T.exp(x), where={x: A[k * 8:k * 8 + 8] + T.Broadcast(T.float32(1.0), 8)}), where={y: b[k]})
        """,  # noqa: E501
    )


@T.prim_func
def peeking(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.float32(0)
    for j in T.vectorized(8):
        if j < 7 and A[j + 1] > T.float32(0):
            B[j] = T.float32(1)


def test_the_right_side_of_and_loads_where_the_left_one_holds():
    check(
        VectorizeLoop(),
        peeking,
        """
        for i in range(8):
            B[i] = T.float32(0.0)
        B.vstore([T.Ramp(0, 1, 8)], T.Broadcast(T.float32(1.0), 8), predicate=T.Ramp(0, 1, 8) < T.Broadcast(7, 8) and A.vload([T.Ramp(1, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(7, 8)) > T.Broadcast(T.float32(0.0), 8))
        """,  # noqa: E501
    )
    check_lowering(peeking, peeking)


@T.prim_func
def divided(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for j in T.vectorized(8):
        B[j] = T.if_then_else(A[j] > 0, 50 // A[j], -1) + T.truncmod(j, 3)


def test_lanes_that_are_masked_do_not_divide():
    check(
        VectorizeLoop(),
        divided,
        """
        B[0:8] = T.Select(A[0:8] > T.Broadcast(0, 8), T.Broadcast(50, 8) // T.Select(A[0:8] > T.Broadcast(0, 8), A[0:8], T.Broadcast(1, 8)), T.Broadcast(-1, 8)) + T.truncmod(T.Ramp(0, 1, 8), T.Broadcast(3, 8))
        """,  # noqa: E501
    )
    check_lowering(divided, divided)


@T.prim_func
def last_one_wins(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = 0
    for j in T.vectorized(8):
        B[A[j] // 2] = j


def test_lanes_that_write_one_element_keep_their_order():
    after = run_pass(VectorizeLoop(), last_one_wins)
    assert "T.Ramp(0, 1, 8)" in after.script()
    same_bits(last_one_wins, after)
    check_lowering(last_one_wins, last_one_wins)


@T.prim_func
def running_sum(A: T.Buffer((8,), "int32"), B: T.Buffer((9,), "int32")):
    B[0] = 0
    for j in T.vectorized(8):
        B[j + 1] = B[j] + A[j]


@T.prim_func
def total(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
    B[0] = 0
    for _j in T.vectorized(8):
        B[0] = B[0] + 1


@T.prim_func
def mirrored(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for j in range(8):
        B[j] = A[j]
    for j in T.vectorized(8):
        B[j] = B[7 - j] + 1


@T.prim_func
def two_stores(A: T.Buffer((8,), "int32"), B: T.Buffer((9,), "int32")):
    B[0] = 0
    for j in T.vectorized(8):
        B[j] = A[j]
        B[j + 1] = 0 - A[j]


@T.prim_func
def overlapping_rows(A: T.Buffer((8,), "int32"), B: T.Buffer((12,), "int32")):
    for j in range(12):
        B[j] = 0
    for j in T.vectorized(8):
        for k in range(4):
            B[j + k] = A[j] + k


@T.prim_func
def scalar_division(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for j in T.vectorized(8):
        B[j] = T.if_then_else(A[j] > 9, 50 // (A[0] * 0), -1)


@T.prim_func
def two_branches(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for j in T.vectorized(8):
        if A[j] > 3:
            B[j] = 1
        else:
            B[j] = 2


@pytest.mark.parametrize(
    "func",
    [running_sum, total, mirrored, two_stores, overlapping_rows, scalar_division, two_branches],
)
def test_loops_without_a_vector_form_stay_serial(func):
    after = run_pass(VectorizeLoop(), func)
    assert "T.vectorized" not in after.script()
    same_bits(func, after)
    check_lowering(func, func)


@T.prim_func
def tail(A: T.Buffer((7,), "float32"), s: T.Buffer((1,), "float32"), B: T.Buffer((7,), "float32")):
    for j in T.vectorized(4):
        if j < 3:
            B[j + 4] = A[j + 4] * s[0]


def test_what_all_lanes_share_is_loaded_where_the_first_one_is_sure_to_run() -> None:
    text = statements(run_pass(VectorizeLoop(), tail))
    assert "T.Broadcast(s[0], 4)" in text and "predicate=" in text
    same_bits(tail, run_pass(VectorizeLoop(), tail))


def test_a_number_that_all_lanes_share_is_loaded_where_some_lane_is_let_through():
    """Behind a test of the first lane: where it is not let through, no other one is."""

    @T.prim_func
    def masked(A: T.Buffer((4,), "float32"), B: T.Buffer((40,), "float32")):
        for i in range(3):
            for j in T.vectorized(16):
                if i * 16 + j < 40:
                    B[i * 16 + j] = B[i * 16 + j] * A[i]

    text = run_pass(VectorizeLoop(), masked).script()
    assert "if i < 3:" in text, "i * 16 < 40"
    assert "T.Broadcast(A[i], 16)" in text
    assert "T.vectorized" not in text
    assert "for j" not in text


def test_it_can_be_turned_off():
    func = parse(
        """
@T.prim_func
def func(A: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        A[i] = i
"""
    )
    mod = mlc.IRModule({"main": func})
    with PassContext(config={"tir.disable_vectorize": True}):
        loop = VectorizeLoop()(mod)["main"].body
    assert loop.kind is ForKind.SERIAL
    assert VectorizeLoop(enable_vectorize=False)(mod)["main"].body.kind is ForKind.SERIAL


COUNTED = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in T.vectorized(4):
        {0}
"""


@pytest.mark.parametrize(
    "line",
    [
        'T.call_packed("test.counted", B.data)',
        'B[i] = T.call_packed("test.counted", B.data)',
        'B[i] = A[i] + T.call_extern("int32", "test.counted", B.data)',
        'if T.call_extern("int32", "test.counted", B.data) > 2:\n            B[i] = 7',
    ],
)
def test_a_call_that_counts_is_made_for_each_lane(line):
    func = parse(COUNTED.format(line))
    calls = []
    register_func("test.counted", lambda *_: calls.append(0) or len(calls), override=True)
    for made in (func, run_pass(VectorizeLoop(), func)):
        calls.clear()
        interpreted(made)
        assert len(calls) == 4
    same = statements(func).replace("T.vectorized", "range")
    assert statements(run_pass(VectorizeLoop(), func)) == same


def test_what_does_the_same_for_all_lanes_is_done_once():
    checked = 'T.call_intrin("int32", "tir.check_index", A[0] % 4, 4, "A")'
    func = parse(COUNTED.format(f"B[i] = A[{checked}]"))
    assert statements(run_pass(VectorizeLoop(), func)) == f"B[0:4] = T.Broadcast(A[{checked}], 4)"


IN_ROW = "T.Broadcast(0, 8) <= P[0, 0:8] and P[0, 0:8] < T.Broadcast(4, 8)"


@T.prim_func
def looked_up(
    P: T.Buffer((2, 8), "int32"), A: T.Buffer((16,), "int32"), B: T.Buffer((8,), "int32")
):
    for i in T.vectorized(8):
        B[i] = T.if_then_else(
            0 <= P[0, i] and P[0, i] < 4 and 0 <= P[1, i] and P[1, i] < 4,
            A[P[0, i] * 4 + P[1, i]],
            0,
        )


def test_what_a_condition_loads_in_all_lanes_is_not_masked_by_it():
    """Conditions inside conditions, one for each of them, would double with each."""
    after = run_pass(VectorizeLoop(), looked_up)
    loads = [n for n in walk(after.body) if isinstance(n, BufferLoad)]
    first, second = (
        {n.predicate for n in loads if n.buffer.name == "P" and as_int(n.indices[0]) == row}
        for row in (0, 1)
    )
    assert first == {None}
    assert {str(mask) for mask in second} == {IN_ROW}
    same_bits(looked_up, after)
    check_lowering(looked_up, looked_up)


@T.prim_func
def chosen(a: T.handle, index: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for i in T.vectorized(8):
        C[i] = T.if_then_else(0 <= index[i] and index[i] < n, A[index[i]], T.float32(0))


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_lanes_that_do_not_read_are_not_checked_in_an_empty_buffer_either(n, target):
    a, index, found = np.ones(n, "float32"), np.arange(-2, 6, dtype="int32"), np.ones(8, "float32")
    mlc.compile(chosen, target)(a, index, found)
    np.testing.assert_array_equal(found, (index >= 0) & (index < n))


@T.prim_func
def first_lanes(
    a: T.handle, index: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32"), m: T.int32
):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for i in T.vectorized(8):
        C[i] = T.if_then_else(i < m, A[index[i]], T.float32(0))


@pytest.mark.parametrize("n", [0, 3])
def test_a_lane_that_reads_outside_is_told(n):
    ex = mlc.compile(first_lanes, "llvm")
    a, index, found = np.ones(n, "float32"), np.arange(8, dtype="int32"), np.ones(8, "float32")
    ex(a, index, found, n)
    np.testing.assert_array_equal(found, np.arange(8) < n)
    with pytest.raises(ExecutionError) as error:
        ex(a, index, found, n + 1)
    assert f"A[index[i]] is read, dimension 0: index {n} is outside of 0..{n}" in str(error.value)


def asking(times: int):
    """Each element is asked for so many things, each where all before it hold."""
    condition = "A[j] < n"
    for at in range(1, times):
        condition = f"T.And({condition}, A[j + {at}] < n)"
    return parse(
        f"""
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    for j in T.vectorized(16):
        B[j] = T.if_then_else({condition}, A[j + 40], 0)
"""
    )


def test_conditions_in_one_another_are_no_vectors_beyond_some_places():
    """Each load has all conditions before it as its mask: 18 of them are a million places."""
    few, many = (run_pass(VectorizeLoop(), asking(times)) for times in (3, 18))
    assert not [n for n in walk(few) if isinstance(n, For)]
    assert [n.kind for n in walk(many) if isinstance(n, For)] == [ForKind.SERIAL]
