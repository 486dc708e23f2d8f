"""HoistExpression: which tests and bindings leave which loops, and that the results stay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import HoistedConditionals, HoistedLetBindings, HoistExpression
from tests.tir.transform.lowering import same_bits


def hoisted(func, tests=HoistedConditionals.All, lets=HoistedLetBindings.All):
    config = {"hoisted_conditionals": tests.value, "hoisted_let_bindings": lets.value}
    with PassContext(config={"tir.HoistExpression": config}):
        after = HoistExpression()(IRModule.make({"main": func}))["main"]
    return after


@T.prim_func(private=True)
def nested(A: T.Buffer((6, 5, 4), "int32")):
    for i, j, k in T.grid(6, 5, 4):
        if j < 3 and i < 2:
            A[i, j, k] = 1
        else:
            A[i, j, k] = T.if_then_else(i < 1, 2, 3)


@T.prim_func(private=True)
def outside(A: T.Buffer((6, 5, 4), "int32")):
    for i in range(6):
        if i < 2:
            if i < 1:
                for j in range(5):
                    if j < 3:
                        for k in range(4):
                            A[i, j, k] = 1
                    else:
                        for k in range(4):
                            A[i, j, k] = 2
            else:
                for j in range(5):
                    if j < 3:
                        for k in range(4):
                            A[i, j, k] = 1
                    else:
                        for k in range(4):
                            A[i, j, k] = 3
        else:
            for j, k in T.grid(5, 4):
                A[i, j, k] = 3


@T.prim_func(private=True)
def whole_tests_only(A: T.Buffer((6, 5, 4), "int32")):
    for i, j in T.grid(6, 5):
        if j < 3 and i < 2:
            for k in range(4):
                A[i, j, k] = 1
        else:
            for k in range(4):
                A[i, j, k] = T.if_then_else(i < 1, 2, 3)


def test_tests_leave_the_loops_that_they_do_not_use():
    assert_structural_equal(hoisted(nested), outside)
    same_bits(nested, outside)


def test_what_moves_is_asked_for():
    statements = HoistedConditionals.IfElseStmt
    assert_structural_equal(hoisted(nested, statements), whole_tests_only)
    assert hoisted(nested, HoistedConditionals.Never) is nested


@T.prim_func(private=True)
def bound(A: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        small = i < 3
        if small:
            A[i, j] = i


@T.prim_func(private=True)
def bound_outside(A: T.Buffer((4, 4), "int32")):
    for i in range(4):
        small = i < 3
        if small:
            for j in range(4):
                A[i, j] = i


@pytest.mark.parametrize(
    "lets", [HoistedLetBindings.LetStmt, HoistedLetBindings.RequiredByConditional]
)
def test_a_test_takes_its_binding_along(lets):
    assert_structural_equal(hoisted(bound, lets=lets), bound_outside)


def test_a_test_stays_with_its_binding():
    assert hoisted(bound, lets=HoistedLetBindings.Never) is bound


@T.prim_func(private=True)
def unsafe(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        if 8 // n < 3:
            A[i] = 1
    for i in range(4):
        if B[0] < 3:
            B[i] = 5
    for i in range(4):
        A[i] = 2
        if n < 3:
            B[i] = 5


def test_tests_that_read_divide_or_stand_among_others_stay():
    assert hoisted(unsafe) is unsafe


@T.prim_func(private=True)
def threads(A: T.Buffer((8, 4), "int32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    for j in range(4):
        if tx < n:
            A[tx, j] = 1


@T.prim_func(private=True)
def threads_outside(A: T.Buffer((8, 4), "int32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    if tx < n:
        for j in range(4):
            A[tx, j] = 1


def test_a_test_of_a_blocks_axis_stays_in_the_block():
    @T.prim_func(private=True)
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                if v < 3:
                    A[v] = 1

    assert_structural_equal(hoisted(before), before)


def test_tests_of_thread_axes():
    assert_structural_equal(hoisted(threads), threads_outside)
    others = HoistedConditionals.All & ~HoistedConditionals.UsingBlockVar
    assert hoisted(threads, others) is threads


CONDITIONS = ["i < {}", "j < {}", "k < {}", "i + j < {}", "i == {}", "j != {}", "{} <= k"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=4, max_size=4),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.sampled_from(["and", "or"]),
    st.integers(0, 15),
)
def test_results_stay_the_same(conditions, numbers, word, tests):
    a, b, c, d = (text.format(n) for text, n in zip(conditions, numbers, strict=True))
    func = parse(
        f"""
@T.prim_func
def func(A: T.Buffer((4, 3, 2), "int32")):
    for i, j, k in T.grid(4, 3, 2):
        if {a} {word} {b}:
            if {c}:
                A[i, j, k] = T.if_then_else({d}, 1, 2)
            else:
                A[i, j, k] = 3
        else:
            A[i, j, k] = 4
"""
    )
    same_bits(func, hoisted(func, HoistedConditionals(tests)))
