"""Conditions without some of their variables: what is left implies them for all their values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb import arith, tir
from mlcnb.arith.narrow import narrow_predicate_expression
from mlcnb.ir import Range
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir.stmt_functor import substitute

I, J, N = (tir.Var(name, "int32") for name in "ijn")
A = tir.decl_buffer(16, "int32", "A")
FALSE = p.const(False, "bool")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (I > 5, I > 5),
        (I > N, I > 7),
        (N <= I, tir.LE(7, I)),
        (tir.EQ(I, N), tir.And(I <= 0, tir.LE(7, I))),
        (tir.NE(N, I), tir.Or(tir.LT(7, I), I < 0)),
        ((I + N) // 4 > 0, tir.Add(I, 0) // 4 > 0),
        (I - N * 3 < 10, tir.Sub(I, tir.Mul(0, 3)) < 10),
        (N * -2 < I, tir.Mul(0, -2) < I),
        (tir.Not(I < N), tir.Not(I < 7)),
        (tir.Not(tir.EQ(I, N)), tir.Not(tir.And(I <= 7, tir.LE(0, I)))),
        (tir.Min(I, N) > J, tir.Min(I, 0) > J),
        (I % 8 > J, I % 8 > J),
        (I % 8 > N, FALSE),
        (I // N > 0, FALSE),
        (N * N > I, FALSE),
        (A.vload(I) > 0, FALSE),
        (tir.Or(A.vload(I) > 0, I <= N), tir.Or(FALSE, I <= 0)),
        (tir.Not(A.vload(I) > 0), FALSE),
    ],
)
def test_what_is_left(given, left):
    found = narrow_predicate_expression(given, {N: Range(0, 8)})
    assert_structural_equal(found, left)
    assert_structural_equal(arith._ffi_api.NarrowPredicateExpression(given, {N: Range(0, 8)}), left)


numbers = st.recursive(
    st.sampled_from([I, J, N]) | st.integers(-4, 4).map(p.const),
    lambda x: st.one_of(
        st.builds(tir.Add, x, x),
        st.builds(tir.Sub, x, x),
        st.builds(tir.Min, x, x),
        st.builds(tir.Max, x, x),
        st.builds(tir.Mul, x, st.integers(-3, 3).map(p.const)),
        st.builds(tir.FloorDiv, x, st.sampled_from([-3, -1, 1, 2, 4]).map(p.const)),
        st.builds(tir.FloorMod, x, st.sampled_from([2, 3]).map(p.const)),
    ),
    max_leaves=4,
)
comparisons = st.builds(
    lambda kind, a, b: kind(a, b),
    st.sampled_from([tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE]),
    numbers,
    numbers,
)
conditions = st.recursive(
    comparisons,
    lambda x: st.one_of(st.builds(tir.And, x, x), st.builds(tir.Or, x, x), st.builds(tir.Not, x)),
    max_leaves=3,
)


def value(x, **values):
    return p.as_int(arith.simplify(substitute(x, {v: p.const(values[v.name]) for v in (I, J, N)})))


@given(conditions)
def test_what_is_left_implies_the_condition(condition):
    left = narrow_predicate_expression(condition, {N: Range(-1, 3)})
    for i, j in ((-5, 1), (0, -2), (3, 1)):
        if value(left, i=i, j=j, n=99):
            assert all(value(condition, i=i, j=j, n=n) for n in (-1, 0, 2))
    assert value(left, i=1, j=2, n=99) == value(left, i=1, j=2, n=-99)
