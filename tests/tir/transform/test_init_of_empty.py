"""What starts a reduction is written where the reduction has nothing to go through."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse
from mlcnb.tir.transform.init_of_empty import init_of_empty

#: C[i, j] = the sum of A[i, k, j, l] over k and l, in loops of some order
SUM = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m, w = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, m, w, 2))
    C = T.match_buffer(c, (n, w))
{loops}
        with T.block("C"):
            vi, vk, vj, vl = T.axis.remap("SRSR", [i, k, j, l])
            {where}T.reads(A[vi, vk, vj, vl])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk, vj, vl]
"""
EXTENTS = {"i": "n", "k": "m", "j": "w", "l": "2"}


def text(order, where=""):
    """The sum, its loops in this order, the first one outermost."""
    extents = ", ".join(EXTENTS[x] for x in order)
    return SUM.format(loops=f"    for {', '.join(order)} in T.grid({extents}):", where=where)


def test_the_init_stands_before_the_first_loop_that_may_not_run():
    func = parse(
        """
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (4, n))
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(1)
            C[vi] = C[vi] * A[vi, vk]
"""
    )
    after = parse(
        """
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (4, n))
    for i in range(4):
        if n <= T.int64(0):
            C[i] = T.float32(1)
        for k in range(n):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(1)
                C[vi] = C[vi] * A[vi, vk]
"""
    )
    assert_structural_equal(init_of_empty(func), after)


def test_the_places_get_loops_of_their_own_inside_of_the_reduction():
    found = init_of_empty(parse(text("kilj"))).script()
    assert found.split('with T.block("C")')[0].endswith(
        """\
    if m <= T.int64(0):
        for i, j in T.grid(n, w):
            C[i, j] = T.float32(0.0)
    for k, i, l, j in T.grid(m, n, 2, w):
        """
    )


def test_loops_that_surely_run_are_left_alone():
    fixed = text("ikjl").replace("n, m, w = T.int64(), T.int64()", "n, w = T.int64()")
    func = parse(fixed.replace("(n, m, w, 2)", "(n, 3, w, 2)").replace("(n, m,", "(n, 3,"))
    assert init_of_empty(func) is func


@given(st.permutations("ikjl"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
def test_a_sum_of_nothing_is_nothing_in_every_order(order, n, m, w):
    func = parse(text(order))
    a = np.random.default_rng(0).integers(-4, 5, (n, m, w, 2)).astype("float32")
    c = np.full((n, w), 7, "float32")
    run_prim_func(func, [a, c])
    np.testing.assert_array_equal(c, a.sum((1, 3)))


@pytest.mark.parametrize("schedule", ["auto", None])
@pytest.mark.parametrize("order", ["ikjl", "kilj", "lkji"])
def test_machine_code_says_the_same(order, schedule):
    ex = mlc.compile(parse(text(order)), "llvm", schedule=schedule)
    for n, m, w in itertools.product((0, 2), repeat=3):
        a = np.random.default_rng(0).integers(-4, 5, (n, m, w, 2)).astype("float32")
        c = np.full((n, w), 7, "float32")
        ex(a, c)
        np.testing.assert_array_equal(c, a.sum((1, 3)))


def test_a_condition_on_the_place_counts_for_the_init():
    func = parse(text("ikjl", "T.where(j < T.int64(1))\n            "))
    c = np.full((2, 3), 7, "float32")
    run_prim_func(func, [np.ones((2, 0, 3, 2), "float32"), c])
    np.testing.assert_array_equal(c, [[0, 7, 7], [0, 7, 7]])
