"""Random expressions: simplified ones have the same values, bounds hold, proofs are true."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import size_of
from mlcnb.arith.forms import decided, multiplies_out
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import NUMBERS
from tests.arith.programs import FUZZ, conditions_over, evaluate, integers_over, points, text

I, J, N = e.Var("i"), e.Var("j"), e.Var("n")
VARIABLES = [I, J, N]
SETTINGS = settings(
    max_examples=120 * FUZZ, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def boxes(draw):
    bounds = {}
    for var in VARIABLES:
        low = draw(st.integers(-6, 4))
        bounds[var] = (low, low + draw(st.integers(0, 6)))
    return bounds


def values_of(x, bounds):
    """The values of `x` at all points where it has one."""
    for point in points(bounds):
        try:
            yield point, evaluate(x, point)
        except ZeroDivisionError:
            continue


def check_same(x, analyzer, bounds):
    simple = analyzer.simplify(x)
    note(f"{text(x)}  ->  {text(simple)}")
    for point, value in values_of(x, bounds):
        assert (
            bool(value) == bool(evaluate(simple, point))
            if x.dtype == "bool"
            else (value == evaluate(simple, point))
        ), point


@SETTINGS
@given(integers_over(VARIABLES), boxes())
def test_simplified_within_bounds_has_the_same_value(x, bounds):
    check_same(x, Analyzer(bounds), bounds)


@SETTINGS
@given(integers_over(VARIABLES), boxes())
def test_simplified_without_bounds_has_the_same_value(x, bounds):
    check_same(x, Analyzer(), bounds)


@SETTINGS
@given(conditions_over(VARIABLES), boxes())
def test_simplified_condition_has_the_same_value(x, bounds):
    check_same(x, Analyzer(bounds), bounds)


@SETTINGS
@given(integers_over(VARIABLES), conditions_over(VARIABLES, 1), boxes())
def test_simplified_under_a_condition_has_the_same_value_where_it_holds(x, condition, bounds):
    analyzer = Analyzer(bounds)
    with analyzer.constraint(condition):
        simple = analyzer.simplify(x)
    note(f"{text(condition)}: {text(x)}  ->  {text(simple)}")
    for point, value in values_of(x, bounds):
        try:
            holds = evaluate(condition, point)
        except ZeroDivisionError:
            continue
        if holds:
            assert value == evaluate(simple, point), point


@SETTINGS
@given(integers_over(VARIABLES), boxes())
def test_const_bounds_hold(x, bounds):
    low, high = Analyzer(bounds).const_bounds(x)
    note(f"{text(x)} in {low} .. {high}")
    assert all(low <= value <= high for _, value in values_of(x, bounds))


@SETTINGS
@given(integers_over(VARIABLES), boxes())
def test_modular_set_holds(x, bounds):
    coefficient, base = Analyzer(bounds).modular_set(x)
    note(f"{text(x)} = {coefficient} * _ + {base}")
    for _, value in values_of(x, bounds):
        assert (value - base) % coefficient == 0 if coefficient else value == base


@SETTINGS
@given(conditions_over(VARIABLES), boxes())
def test_what_is_proved_is_true(x, bounds):
    if Analyzer(bounds).can_prove(x):
        note(text(x))
        assert all(value for _, value in values_of(x, bounds))


@SETTINGS
@given(conditions_over([I, J], 1), st.integers(1, 5))
def test_what_is_proved_under_symbolic_bounds_is_true(x, extent):
    n = N
    analyzer = Analyzer()
    analyzer.bind(n, (1, 5))
    analyzer.bind(I, e.Range(e.IntImm(n.dtype, 0), n))
    analyzer.bind(J, e.Range(I, n - I))
    if analyzer.can_prove(x):
        note(text(x))
        for i in range(extent):
            for j in range(i, extent):
                try:
                    assert evaluate(x, {I: i, J: j, n: extent}), (i, j)
                except ZeroDivisionError:
                    continue


@SETTINGS
@given(integers_over(VARIABLES, 2), boxes())
def test_simplify_twice_is_simplify_once(x, bounds):
    once = Analyzer(bounds).simplify(x)
    again = Analyzer(bounds).simplify(once)
    note(f"{text(x)} -> {text(once)} -> {text(again)}")
    values = [evaluate(once, point) for point, _ in values_of(x, bounds)]
    assert values == [evaluate(again, point) for point, _ in values_of(x, bounds)]


anything = integers_over(VARIABLES) | conditions_over(VARIABLES)


@SETTINGS
@given(anything, boxes(), st.booleans())
def test_what_is_simplified_is_never_longer(x, bounds, bounded):
    short = Analyzer(bounds if bounded else {}).simplify(x)
    note(f"{text(x)} -> {text(short)}")
    multiplied_out = any(isinstance(n, e.Add | e.Sub) and multiplies_out(n) for n in walk(x))
    assert size_of(short) <= size_of(x) or multiplied_out


@SETTINGS
@given(anything, boxes(), st.booleans())
def test_what_is_short_stays_as_short(x, bounds, bounded):
    known = bounds if bounded else {}
    once = Analyzer(known).simplify(x)
    again = Analyzer(known).simplify(once)
    note(f"{text(x)} -> {text(once)} -> {text(again)}")
    assert size_of(again) == size_of(once) or multiplies_out(once)


@pytest.mark.parametrize("divide", [p.floordiv, p.floormod, p.truncdiv, p.truncmod])
def test_a_divisor_that_is_surely_zero_is_no_error(divide):
    """Nobody runs it, or its run says so."""
    x = divide(p.floordiv(J, -3), I) * -3
    bounds = {I: (0, 0), J: (0, 1), N: (0, 0)}
    simple = Analyzer(bounds).simplify(x)
    for point in points(bounds):
        with pytest.raises(ZeroDivisionError):
            evaluate(simple, point)


@pytest.mark.parametrize("kind", [e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE])
def test_a_comparison_is_decided_where_all_differences_agree(kind):
    for low in (-inf, *range(-3, 4)):
        for high in (*range(-3, 4), inf):
            if low <= high:
                least, most = max(low, -9), min(high, 9)
                found = {bool(NUMBERS[kind](d, 0)) for d in range(int(least), int(most) + 1)}
                assert decided(kind, low, high) == (found.pop() if len(found) == 1 else None)
