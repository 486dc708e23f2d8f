"""RemoveNoOp: what does nothing goes, what might do something stays."""

from __future__ import annotations

import mlcnb as mlc
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import RemoveNoOp, lower_opaque_block
from tests.tir.transform.lowering import check, run_pass


@T.prim_func
def idle(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(8):
        x: T.int32 = i + 1
        if i < 4:
            T.evaluate(0)
        else:
            T.evaluate(T.exp(A[i]))
        if A[i] < T.float32(0):
            T.evaluate(0)
        else:
            B[i] = T.float32(2)
        B[i] = A[i]
        B[i] = B[i]
        for j in range(8):
            A[j] = A[j]
        for j in range(0):
            B[j] = A[j]


def test_what_has_no_effect_is_gone():
    check(
        RemoveNoOp(),
        lower_opaque_block(idle),
        """
        for i in range(8):
            if not A[i] < T.float32(0.0):
                B[i] = T.float32(2.0)
            B[i] = A[i]
        """,
    )


@T.prim_func
def nothing(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = B[i]


def test_a_function_that_does_nothing():
    check(RemoveNoOp(), nothing, "T.evaluate(0)")


@T.prim_func
def calls(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        T.evaluate(T.call_extern("int32", "tick", i))
        B[i] = B[7 - i]


def test_calls_that_may_do_something_stay():
    assert run_pass(RemoveNoOp(), calls) is calls


def test_a_store_of_what_was_read_is_seen_by_what_is_known_there():
    def func(body: str):
        head = '@T.prim_func\ndef main(A: T.Buffer((16,), "int32")):\n    for i in range(16):\n'
        return parse(head + body)

    given = func(
        """
        if i != 0:
            A[i] = A[i - 1]
        else:
            A[i] = A[0]
        j: T.let[T.int32] = i // 4
        A[j * 4 + i % 4] = A[i]
        A[i] = A[i // 2 * 2]
"""
    )
    expected = func(
        """
        if i != 0:
            A[i] = A[i - 1]
        A[i] = A[i // 2 * 2]
"""
    )
    after = RemoveNoOp()(mlc.IRModule({"main": given}))["main"]
    assert_structural_equal(after, expected)
