"""Intervals of expressions over loop ranges, against all points; linear proofs against islpy."""

from __future__ import annotations

import islpy as isl
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import Analyzer, set_of
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, evaluate, integers_over, text

I, J, N = e.Var("i"), e.Var("j"), e.Var("n")
SETTINGS = settings(
    max_examples=150 * FUZZ, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [
        (I * 4 + J, "(i * 4)", "((i * 4) + 3)"),
        (I * 4 - J, "((i * 4) - 3)", "(i * 4)"),
        ((I * 8 + J * 2) // 4, "(i * 2)", "((i * 2) + 1)"),
        ((I * 4 + J) % 4, "0", "3"),
        ((N + J) % 8, "0", "7"),
        (p.minimum(I * 4 + J, N), "min((i * 4), n)", "min(((i * 4) + 3), n)"),
        (p.maximum(J - 1, I), "max(i, -1)", "max(i, 2)"),
        (p.if_then_else(I > 2, J, J + 4), "0", "7"),
        (J * J, "0", "9"),
        (I * J, None, None),
        (N * 3, "(n * 3)", "(n * 3)"),
    ],
)
def test_set_of(x, low, high):
    found = set_of(x, {J: e.Range(p.const(0), p.const(4))})
    ends = [None if end is None else text(end) for end in (found.low, found.high)]
    assert ends == [low, high]


def test_domains_may_use_outer_variables():
    found = set_of(
        I * 4 + J,
        {I: e.Range(p.const(0), N), J: e.Range(I, p.const(2))},
    )
    assert (text(found.low), text(found.high)) == ("0", "((n * 5) - 4)")


@SETTINGS
@given(
    integers_over([I, J, N]),
    st.tuples(st.integers(-3, 3), st.integers(1, 4)),
    st.tuples(st.integers(-3, 3), st.integers(1, 4)),
    st.integers(-5, 5),
)
def test_every_value_lies_in_the_interval(x, i_range, j_range, n):
    domains = {
        var: e.Range(p.const(low), p.const(extent))
        for var, (low, extent) in ((I, i_range), (J, j_range))
    }
    found = set_of(x, domains)
    note(f"{text(x)} in {found}")
    for i in range(i_range[0], sum(i_range)):
        for j in range(j_range[0], sum(j_range)):
            try:
                value = evaluate(x, {I: i, J: j, N: n})
                low = None if found.low is None else evaluate(found.low, {N: n})
                high = None if found.high is None else evaluate(found.high, {N: n})
            except ZeroDivisionError:
                continue
            assert low is None or low <= value
            assert high is None or value <= high


linear = st.builds(
    lambda a, b, c, d: I * a + J * b + N * c + d,
    *[st.integers(-4, 4)] * 3,
    st.integers(-9, 9),
)


@settings(max_examples=60 * FUZZ, deadline=None)
@given(linear, linear, linear)
def test_linear_proofs_agree_with_isl(claim, first, second):
    """What is proved from two linear conditions and bounds is true by Presburger arithmetic."""
    analyzer = Analyzer()
    analyzer.bind(N, (1, 6))
    analyzer.bind(I, e.Range(p.const(0), N))
    analyzer.bind(J, (0, 5))
    conditions = f"{text(first)} >= 0 and {text(second)} >= 0"
    with analyzer.constraint(first >= 0, second >= 0):
        proved = analyzer.can_prove(claim >= 0)
    counter = isl.Set(
        f"{{ [i, j, n] : 1 <= n <= 6 and 0 <= i < n and 0 <= j <= 5 and {conditions} "
        f"and {text(claim)} < 0 }}"
    )
    note(f"{conditions} => {text(claim)} >= 0: {proved}")
    assert not proved or counter.is_empty()


@settings(max_examples=60 * FUZZ, deadline=None)
@given(linear)
def test_linear_bounds_are_those_of_isl(x):
    """For a linear expression over a box, the bounds are the exact ones."""
    low, high = Analyzer({I: (0, 7), J: (-2, 5), N: (1, 4)}).const_bounds(x)
    points = isl.Set("{ [i, j, n] : 0 <= i <= 7 and -2 <= j <= 5 and 1 <= n <= 4 }")
    value = isl.PwAff(f"{{ [i, j, n] -> [{text(x)}] }}").intersect_domain(points)
    assert (low, high) == (value.min_val().to_python(), value.max_val().to_python())


@settings(max_examples=60 * FUZZ, deadline=None)
@given(linear, st.integers(-3, 3), st.integers(1, 6), st.integers(1, 6))
def test_linear_intervals_are_those_of_isl(x, start, count, n):
    """Over loops, the second of which depends on the first, the ends of `set_of` are reached."""
    domains = {I: e.Range(p.const(start), p.const(count)), J: e.Range(p.const(0), N)}
    found = set_of(x, domains)
    points = isl.Set(f"{{ [i, j, n] : {start} <= i < {start + count} and 0 <= j < n and n = {n} }}")
    value = isl.PwAff(f"{{ [i, j, n] -> [{text(x)}] }}").intersect_domain(points)
    if found.low is not None:
        assert evaluate(found.low, {N: n}) == value.min_val().to_python()
    if found.high is not None:
        assert evaluate(found.high, {N: n}) == value.max_val().to_python()
    assert found.is_bounded
