"""InlinePrivateFunctions: which functions go, and what stands in the place of their calls."""

from __future__ import annotations

from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import ir as I
from mlcnb.script import tir as T
from mlcnb.tir.transform import InlinePrivateFunctions


@I.ir_module
class Before:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        for i in range(2):
            Before.fill(A.data, i)
        Before.fill(A.data, 5)

    @T.prim_func(private=True)
    def fill(data: T.handle("float32"), i: T.int32):
        Before.one(data, i * 2)

    @T.prim_func(private=True)
    def one(data: T.handle("float32"), i: T.int32):
        B = T.decl_buffer(16, data=data)
        B[i] = T.float32(1)


@I.ir_module
class Expected:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        for i in range(2):
            B = T.decl_buffer(16, data=A.data)
            B[i * 2] = T.float32(1)
        C = T.decl_buffer(16, data=A.data)
        C[10] = T.float32(1)


def test_private_functions_stand_where_they_are_called():
    assert_structural_equal(InlinePrivateFunctions()(Before), Expected)


def test_functions_that_call_themselves_or_are_called_from_outside_stay():
    @I.ir_module
    class Kept:
        @T.prim_func
        def main(n: T.int32):
            Kept.down(n)
            Kept.other(n)

        @T.prim_func(private=True)
        def down(n: T.int32):
            if n > 0:
                Kept.down(n - 1)

        @T.prim_func
        def other(n: T.int32):
            T.evaluate(n)

    assert InlinePrivateFunctions()(Kept) is Kept
