"""InlinePrivateFunctions: which functions go, and what stands in the place of their calls."""

from __future__ import annotations

import numpy as np

from mlcnb.codegen.interp import run_prim_func
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


def test_a_pointer_that_is_computed_gets_a_name():
    @I.ir_module
    class Rows:
        @T.prim_func
        def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                Rows.row(T.address_of(A[i, 0]), T.address_of(B[i]))

        @T.prim_func(private=True)
        def row(a: T.handle("float32"), b: T.handle("float32")):
            X = T.decl_buffer((4,), data=a)
            Y = T.decl_buffer((1,), data=b)
            Y[0] = T.float32(0)
            for j in range(4):
                Y[0] = Y[0] + X[j]

    @I.ir_module
    class Summed:
        @T.prim_func
        def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                a: T.handle("float32") = T.address_of(A[i, 0])
                X = T.decl_buffer((4,), data=a)
                b: T.handle("float32") = T.address_of(B[i])
                Y = T.decl_buffer((1,), data=b)
                Y[0] = T.float32(0)
                for j in range(4):
                    Y[0] = Y[0] + X[j]

    after = InlinePrivateFunctions()(Rows)
    assert_structural_equal(after, Summed)
    x, y = np.arange(32, dtype="float32").reshape(8, 4), np.zeros(8, "float32")
    run_prim_func(after["main"], [x, y])
    np.testing.assert_array_equal(y, x.sum(1))
