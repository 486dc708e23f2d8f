"""Tests around what may as well be done always."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import tir as T
from mlcnb.tir.transform import ReduceBranchingThroughOvercompute


def reduced(func, follow=False):
    options = {"tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": follow}}
    with tvm.transform.PassContext(config=options):
        return ReduceBranchingThroughOvercompute()(tvm.IRModule.from_expr(func))["main"]


def test_what_comes_to_nothing():
    @T.prim_func(private=True)
    def before(A: T.Buffer((1,), "int32")):
        for i in range(16):
            if i > 0:
                A[0] = A[0] + i * i

    @T.prim_func(private=True)
    def expected(A: T.Buffer((1,), "int32")):
        for i in range(16):
            A[0] = A[0] + i * i

    after = reduced(before)
    tvm.ir.assert_structural_equal(after, expected)
    one, two = np.array([5], "int32"), np.array([5], "int32")
    run_prim_func(before, [one])
    run_prim_func(after, [two])
    assert one == two


def test_both_sides_do_the_same():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1
                T.evaluate(0)
            else:
                A[i] = 1

    @T.prim_func(private=True)
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 1
            T.evaluate(0)

    tvm.ir.assert_structural_equal(reduced(before), expected)


def test_what_buffers_hold():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
        B[0] = 0
        for i in range(16):
            if i < 14:
                B[0] = B[0] + A[i]

    @T.prim_func(private=True)
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
        B[0] = 0
        for i in range(16):
            B[0] = B[0] + A[i]

    tvm.ir.assert_structural_equal(reduced(before, follow=True), expected)
    assert reduced(before) is not None
    tvm.ir.assert_structural_equal(reduced(before), before)


@pytest.mark.parametrize(
    "line",
    [
        "A[i] = 1",
        "B[0] = B[0] + A[i + 2] * 0",
        "B[0] = B[0] + 0 // (i - 15)",
        "B[0] = B[0] + T.call_extern('int32', 'f') * 0",
    ],
)
def test_what_would_change_leave_or_stop_something_stays(line):
    func = tvm.script.from_source(
        "@T.prim_func(private=True)\n"
        'def main(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):\n'
        "    for i in range(16):\n"
        "        if i < 14:\n"
        f"            {line}\n"
    )
    tvm.ir.assert_structural_equal(reduced(func, follow=True), func)
