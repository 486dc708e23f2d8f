"""Integers that wrap around: narrow and unsigned dtypes, and casts between them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import Analyzer, can_prove, simplify
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, text
from tests.arith.wrapping import KINDS, evaluate, expressions, wrapped

VARIABLES = [e.Var(f"v{kind}", p.dtype(kind)) for kind in KINDS]
#: an index is assumed not to overflow, so the values of indices are small
LIMITS = {"int32": 9, "int64": 9}

points = st.lists(
    st.lists(st.integers(-300, 300), min_size=len(KINDS), max_size=len(KINDS)),
    min_size=6,
    max_size=6,
)


def assigned(numbers):
    return {
        v: n % LIMITS[str(v.dtype)] if str(v.dtype) in LIMITS else wrapped(n, v.dtype)
        for v, n in zip(VARIABLES, numbers, strict=True)
    }


@settings(max_examples=200 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS).flatmap(lambda kind: expressions(VARIABLES, kind)), points)
def test_values_and_bounds_are_those_of_a_machine(x, numbers):
    analyzer = Analyzer()
    short = analyzer.simplify(x)
    low, high = analyzer.const_bounds(x)
    note(f"{text(x)}  ->  {text(short)} in {low}..{high}")
    for values in map(assigned, numbers):
        value = evaluate(x, values)
        assert evaluate(short, values) == value
        assert low <= value <= high


@pytest.mark.parametrize("kind", ["int8", "uint8", "uint32"])
def test_what_holds_for_indices_only_is_not_assumed(kind):
    x = e.Var("x", p.dtype(kind))
    one = p.const(1, kind)
    assert not can_prove(e.LT(x, e.Add(x, one)))
    assert isinstance(
        simplify(e.FloorDiv(e.Mul(x, p.const(2, kind)), p.const(2, kind))), e.FloorDiv
    )


def test_casts_that_lose_nothing_keep_their_bounds_and_others_do_not():
    byte = e.Var("b", p.dtype("uint8"))
    i = e.Var("i")
    assert can_prove(p.cast("int32", byte) < 256)
    for bounds, kept in (((0, 200), (-128, 127)), ((0, 100), (0, 100))):
        assert Analyzer({i: bounds}).const_bounds(p.cast("int8", i)) == kept
        assert Analyzer({i: bounds}).const_bounds(p.cast("int32", p.cast("int8", i))) == kept
    assert Analyzer({i: (0, 100)}).const_bounds(p.cast("int64", i)) == (0, 100)
