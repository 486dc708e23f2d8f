"""Boxes that regions cover, and conditions solved for a variable: against all points, and isl."""

from __future__ import annotations

import itertools

import islpy as isl
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb import arith
from mlcnb.arith import IntSet
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, conditions_over, evaluate, integers_over, text

I, J, K, N = (e.Var(name) for name in "ijkn")
SETTINGS = settings(max_examples=120 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))


def loops(**extents):
    return {{"i": I, "j": J}[n]: e.Range(p.const(0), p.as_expr(x)) for n, x in extents.items()}


def slice_of(start, extent=1):
    return e.Range(p.as_expr(start), p.as_expr(extent))


def shown(sets):
    return None if sets is None else [f"{text(s.low)}..{text(s.high)}" for s in sets]


@pytest.mark.parametrize(
    ("region", "domain", "strict", "upper"),
    [
        ([slice_of(I * 8 + J)], loops(i=4, j=8), ["0..31"], ["0..31"]),
        ([slice_of(I * 4, 4)], loops(i=4), ["0..15"], ["0..15"]),
        ([slice_of(I * 4, 2)], loops(i=4), None, ["0..13"]),
        ([slice_of(I * 2, 4)], loops(i=4), ["0..9"], ["0..9"]),
        ([slice_of(I), slice_of(J)], loops(i=4, j=8), ["0..3", "0..7"], ["0..3", "0..7"]),
        ([slice_of(I), slice_of(I)], loops(i=4), None, ["0..3", "0..3"]),
        ([slice_of(I + J)], loops(i=4, j=8), ["0..10"], ["0..10"]),
        ([slice_of(N + I)], loops(i=4), ["n..(n + 3)"], ["n..(n + 3)"]),
        ([slice_of(I * J)], loops(i=4, j=8), None, ["0..21"]),
    ],
)
def test_boxes(region, domain, strict, upper):
    assert shown(arith.estimate_region_strict_bound(region, domain)) == strict
    assert shown(arith.estimate_region_lower_bound(region, domain)) == strict
    assert shown(arith.estimate_region_upper_bound(region, domain)) == upper


def test_a_predicate_cuts_the_box():
    found = arith.estimate_region_strict_bound(
        [slice_of(I * 8 + J)], loops(i=4, j=8), I * 8 + J < 30
    )
    assert shown(found) == ["0..29"]


@SETTINGS
@given(
    integers_over([I, J], 2), integers_over([I, J], 2), st.integers(1, 4), st.integers(1, 4),
    st.integers(1, 3),
)  # fmt: skip
def test_strict_boxes_are_full_and_upper_ones_hold_all(x, y, n, m, width):
    region, domain = [slice_of(x, width), slice_of(y)], loops(i=n, j=m)
    try:
        touched = {
            (evaluate(x, {I: i, J: j}) + w, evaluate(y, {I: i, J: j}))
            for i in range(n) for j in range(m) for w in range(width)
        }  # fmt: skip
    except ZeroDivisionError:
        return
    strict = arith.estimate_region_strict_bound(region, domain)
    upper = arith.estimate_region_upper_bound(region, domain)
    note(f"{shown(strict)} {upper}")
    if strict is not None:
        sides = [range(evaluate(s.low, {}), evaluate(s.high, {}) + 1) for s in strict]
        assert set(itertools.product(*sides)) == touched
    for axis, side in enumerate(upper):
        values = {point[axis] for point in touched}
        assert side.low is None or evaluate(side.low, {}) <= min(values)
        assert side.high is None or max(values) <= evaluate(side.high, {})


def test_a_factor_that_is_zero_when_it_is_folded():
    region = [slice_of(I), slice_of(I * e.Mul(p.const(0, "int32"), p.const(-3, "int32")))]
    assert shown(arith.estimate_region_strict_bound(region, loops(i=2))) == ["0..1", "0..0"]


linear = st.builds(
    lambda a, b, c, d: I * a + J * b + N * c + d, *[st.integers(-4, 4)] * 3, st.integers(-9, 9)
)


@SETTINGS
@given(linear, linear, st.sampled_from([e.LT, e.LE, e.GT, e.GE, e.EQ]))
def test_deduced_bounds_are_those_of_isl(a, b, kind):
    """The set of i for which the condition holds for all j in 0..4, at each n: exactly isl's."""
    condition = kind(a, b)
    found = arith.deduce_bound(I, condition, {N: IntSet.interval(0, 6)}, loops(j=4))
    note(f"{text(condition)}: {found}")
    (factor, _rest) = arith.detect_linear_equation(a - b, [I])
    if found.is_nothing() and p.is_const(factor, 0):
        return  # a condition on n alone: no value of i makes it hold for sure
    sign = "=" if kind is e.EQ else text(kind(I, J)).split()[1]
    head = "0 <= n <= 6 and -60 <= i <= 60"
    bad = isl.Set(
        f"{{ [n, i] : {head} and exists j : 0 <= j < 4 and not ({text(a)} {sign} {text(b)}) }}"
    )
    good = isl.Set(f"{{ [n, i] : {head} }}").subtract(bad)
    for n in range(7):
        low = -60 if found.low is None else max(evaluate(found.low, {N: n}), -60)
        high = 60 if found.high is None else min(evaluate(found.high, {N: n}), 60)
        mine = isl.Set(f"{{ [n, i] : n = {n} and {low} <= i <= {high} }}")
        assert mine.is_equal(good.intersect(isl.Set(f"{{ [n, i] : n = {n} }}")))


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (I * 4 + J < N, "None..((n // 4) - 1)"),
        (I * 4 - J >= N, "(((n + 2) // 4) + 1)..None"),
        (p.all_of(I >= 2, I < N), "2..(n - 1)"),
        (p.equal(I * 2, N), "((n + 1) // 2)..(n // 2)"),
        (J * 0 <= 0, "None..None"),
        (I * J < N, "1..0"),
        (I // 8 > 3, "32..None"),
        (I // -8 >= 3, "None..-24"),
        (N + J + I // 4 < 9, "None..(23 - (n * 4))"),
    ],
)
def test_deduced_bounds(condition, found):
    made = arith.deduce_bound(I, condition, {}, loops(j=4))
    ends = ["None" if end is None else text(end) for end in (made.low, made.high)]
    assert "..".join(ends) == found


def test_clip_bounds():
    condition = p.all_of(I >= 2, I + 1 < N, J * 2 <= 9)
    found = arith.detect_clip_bound(condition, [I, J])
    assert [None if x is None else text(x) for x in found] == ["2", "(n - 2)", None, "4"]
    assert arith.detect_clip_bound(I + J < 4, [I, J]) == []
    assert arith.detect_clip_bound(p.any_of(I < 4, J < 3), [I, J]) == []


@SETTINGS
@given(conditions_over([I, J], 1))
def test_clip_bounds_are_the_condition(condition):
    found = arith.detect_clip_bound(condition, [I, J])
    if not found:
        return
    note(f"{text(condition)}: {found}")
    for i, j in itertools.product(range(-12, 13), repeat=2):
        ends = [None if x is None else evaluate(x, {}) for x in found]
        inside = all(
            (low is None or low <= value) and (high is None or value <= high)
            for value, low, high in ((i, *ends[:2]), (j, *ends[2:]))
        )
        try:
            assert bool(evaluate(condition, {I: i, J: j})) == inside
        except ZeroDivisionError:
            continue


def test_sets():
    a, b = IntSet.interval(0, 7), IntSet.interval(4, N)
    assert shown([a.union(b)]) == ["0..max(n, 7)"] and shown([a.intersect(b)]) == ["4..min(n, 7)"]
    assert IntSet.nothing().is_nothing() and IntSet.everything().is_everything()
    assert a.contains(3) and not a.contains(8) and not a.contains(N)
    assert shown([IntSet.vector(e.Ramp(I, p.const(2), 4))]) == ["i..(i + 6)"]
    assert shown([IntSet.vector(e.Ramp(I, p.const(-1), 4))]) == ["(i - 3)..i"]
    assert IntSet.single_point(3).is_point
    assert IntSet.from_range(e.Range(p.const(2), p.const(4))) == IntSet.from_range(
        e.Range(p.const(2), p.const(4))
    ) or shown([IntSet.from_range(e.Range(p.const(2), p.const(4)))]) == ["2..5"]
