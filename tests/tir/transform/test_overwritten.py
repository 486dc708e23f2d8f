"""RemoveNoOp with dataflow analysis: stores that others hide are gone, and only those."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir.transform import RemoveNoOp
from tests.tir.transform.lowering import same_bits


def removed(mod):
    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}}):
        return RemoveNoOp()(mod)


class Hidden(CompareBeforeAfter):
    def transform(self):
        return removed


class TestStoreAfterStore(Hidden):
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = T.call_extern("int32", "count")
            A[i] = 1
            A[i] = 2

    def expected(A: T.Buffer((8,), "int32")):
        for i in range(8):
            T.evaluate(T.call_extern("int32", "count"))
            A[i] = 2


class TestLoopAfterLoop(Hidden):
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(2, 6):
            if B[i] < 3:
                A[i] = 1
        for i in range(8):
            B[i] = 2
        for i in range(8):
            A[i] = 3

    def expected(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = 2
        for i in range(8):
            A[i] = 3


class TestUnderATestThatHoldsMoreOften(Hidden):
    def before(A: T.Buffer((16,), "int32")):
        for i in range(2, 16):
            if i < 10:
                A[i] = 100
        for i in range(16):
            if i // 4 < 3:
                A[i] = 42

    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i // 4 < 3:
                A[i] = 42


class TestUnderATestThatHoldsLessOften(Hidden):
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 13:
                A[i] = 100
        for i in range(16):
            if i // 4 < 3:
                A[i] = 42

    expected = before


class TestTheValueIsThere(Hidden):
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = i * 2
        for i in range(16):
            B[i] = A[i]
        A[4] = 8
        for j in range(3):
            A[j + 2] = j * 2 + 4
        A[5] = 8

    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = i * 2
        for i in range(16):
            B[i] = A[i]
        A[5] = 8


class TestOneOfTwoTheSameStays(Hidden):
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = i
        for i in range(16):
            A[i] = i

    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = i


class TestOnlyAnEffectIsLeft(Hidden):
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = T.call_extern("int32", "count")
            A[i] = 42

    def expected(A: T.Buffer((8,), "int32")):
        for i in range(8):
            T.evaluate(T.call_extern("int32", "count"))
            A[i] = 42


class TestUnderTheSameTest(Hidden):
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            if i < 5:
                A[i] = 1
        for i in range(8):
            if i < 5:
                A[i] = 3

    def expected(A: T.Buffer((8,), "int32")):
        for i in range(8):
            if i < 5:
                A[i] = 3


@pytest.mark.parametrize(
    "second", ["if i < 5:\n            A[i] = 2", "A[i] = A[7 - i] + 1", "A[0] = 2"]
)
def test_what_is_still_read_or_not_covered_stays(second):
    func = parse(
        f"""
@T.prim_func(private=True)
def func(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = i
    for i in range(8):
        {second}
"""
    )
    assert removed(IRModule.from_expr(func))["main"] is func


def test_bindings_keep_their_effect_and_loops_that_cannot_run_go():
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "int32")):
        for i in range(8):
            for j in range(i - 9):
                A[i] = j
        x = T.call_extern("int32", "count")
        A[0] = 1

    @T.prim_func(private=True)
    def expected(A: T.Buffer((8,), "int32")):
        T.evaluate(T.call_extern("int32", "count"))
        A[0] = 1

    assert_structural_equal(RemoveNoOp()(IRModule.from_expr(func))["main"], expected)


STORES = st.tuples(
    st.sampled_from(["range(8)", "range(2, 6)", "range(4)"]),
    st.sampled_from(["True", "i < 3", "2 <= i"]),
    st.sampled_from(["A[i]", "A[7 - i]", "A[0]", "B[i]"]),
    st.sampled_from(["1", "i", "A[i] + 1", "B[i] * 2"]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(STORES, min_size=2, max_size=4))
def test_results_stay_the_same(stores):
    lines = [
        f"    for i in {loop}:\n        if {test}:\n            {place} = {value}"
        for loop, test, place, value in stores
    ]
    func = parse(
        "@T.prim_func\ndef func(A: T.Buffer((8,), 'int32'), B: T.Buffer((8,), 'int32')):\n"
        + "\n".join(line.replace("if True:", "if 0 <= i:") for line in lines)
    )
    same_bits(func, removed(IRModule.make({"main": func}))["main"])
