"""Divisions that round down, by those that round to zero."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import tir as T
from mlcnb.tir.transform import LowerIntrin


def lowered(func):
    bound = func.with_attr("target", tvm.target.Target("llvm"))
    return LowerIntrin()(tvm.IRModule.from_expr(bound))["main"].without_attr("target")


def test_the_forms():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32"), n: T.int32, m: T.int32):
        for i in range(16):
            A[i] = n // 8 + n % 8 + i // 3 + i % 3
            A[i] = n // 3 + n % 3
            A[i] = n % m

    @T.prim_func(private=True)
    def expected(A: T.Buffer((16,), "int32"), n: T.int32, m: T.int32):
        for i in range(16):
            A[i] = (n >> 3) + (n & 7) + T.Div(i, 3) + T.truncmod(i, 3)
            A[i] = T.Select(T.truncmod(n, 3) >= 0, T.Div(n, 3), T.Div(n, 3) - 1) + T.Select(
                T.truncmod(n, 3) >= 0, T.truncmod(n, 3), T.truncmod(n, 3) + 3
            )
            A[i] = T.Select(
                m >= 0 and T.truncmod(n, m) >= 0 or m < 0 and T.truncmod(n, m) <= 0,
                T.truncmod(n, m),
                T.truncmod(n, m) + m,
            )

    tvm.ir.assert_structural_equal(lowered(before), expected)
    mod = tvm.IRModule.from_expr(before)
    assert LowerIntrin()(mod) is mod


@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
@pytest.mark.parametrize("divisor", [None, 8, 5, -3, 1])
def test_every_pair(kind, divisor):
    values = [x for x in range(-10, 11) if x]
    x = np.repeat(np.arange(-10, 10), len(values)).astype(kind)
    y = np.tile(values, 20).astype(kind)
    count = len(x)
    by = (lambda b, i: b[i]) if divisor is None else (lambda b, i: tvm.tir.const(divisor, kind))

    @T.prim_func(private=True)
    def func(
        X: T.Buffer((count,), kind),
        Y: T.Buffer((count,), kind),
        Q: T.Buffer((count,), kind),
        R: T.Buffer((count,), kind),
    ):
        for i in range(count):
            Q[i] = T.floordiv(X[i], by(Y, i))
            R[i] = T.floormod(X[i], by(Y, i))

    after = lowered(func)
    assert "//" not in after.script() and "%" not in after.script()
    quotient, rest = np.zeros(count, kind), np.zeros(count, kind)
    run_prim_func(after, [x, y, quotient, rest])
    d = y if divisor is None else np.array(divisor, kind)
    np.testing.assert_array_equal(quotient, x // d)
    np.testing.assert_array_equal(rest, x % d)
