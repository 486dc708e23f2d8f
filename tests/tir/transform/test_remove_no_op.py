"""RemoveNoOp: what does nothing goes, what might do something stays."""

from __future__ import annotations

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
