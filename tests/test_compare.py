"""CompareBeforeAfter: what a test of a pass may be written as."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.core.errors import MLCError, PassError
from mlcnb.ir.module import IRModule
from mlcnb.script import ir as I
from mlcnb.script import tir as T
from mlcnb.testing import CompareBeforeAfter


class TestModule(CompareBeforeAfter):
    transform = tir.transform.RemoveNoOp()

    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(0):
                A[i] = 1

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            T.evaluate(0)


class TestMethods(CompareBeforeAfter):
    extent = 4

    def before(self):
        n = self.extent

        @T.prim_func(private=True)
        def func(A: T.Buffer((n,), "int32")):
            T.evaluate(0)
            A[n - 1] = n

        return func

    @pytest.fixture
    def expected(self):
        @T.prim_func(private=True)
        def func(A: T.Buffer((4,), "int32")):
            A[3] = 4

        return func

    def transform(self):
        return lambda mod: tir.transform.RemoveNoOp()(mod)


class TestError(CompareBeforeAfter):
    def transform(self):
        def refuse(mod):
            raise PassError("no")

        return refuse

    def before(A: T.Buffer((4,), "int32")):
        A[0] = 1

    expected = PassError


def test_an_error_that_does_not_come_is_one():
    case = CompareBeforeAfter()
    func = IRModule.make({})
    with pytest.raises(AssertionError, match="PassError was not raised; the result is"):
        case.test_compare(func, PassError, lambda mod: mod)


def test_both_spellings_at_once_are_refused():
    with pytest.raises(MLCError) as error:

        class Both(CompareBeforeAfter):
            before = None
            Before = 1
            expected = 2
            Expected = 3

    assert str(error.value) == "Both has both before and Before"
