"""Sums read in each way, added and bounded, against all values one by one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import emit
from mlcnb.arith.extremes import interval
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from tests.arith.programs import FUZZ, evaluate, integers_over, points, text

I, J, N = e.Var("i"), e.Var("j"), e.Var("n")
VARIABLES = [I, J, N]
INT32 = dtype("int32")
SETTINGS = settings(
    max_examples=150 * FUZZ, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
expressions = integers_over(VARIABLES)


@st.composite
def boxes(draw):
    lows = [draw(st.integers(-6, 4)) for _ in VARIABLES]
    return {v: (low, low + draw(st.integers(0, 6))) for v, low in zip(VARIABLES, lows, strict=True)}


def readers(bounds):
    """Each way to read a sum, and to write what was read."""
    analyzer, context = Analyzer(bounds), Context(bounds)
    return {
        "quick": (lambda x: of(x, context), lambda x: x.expr("int32")),
        "full": (analyzer.normal_form, lambda x: emit(x, INT32)),
    }


def check(found, bounds, wanted):
    """The expression has the wanted value wherever that can be computed."""
    for point in points(bounds):
        try:
            value = wanted(point)
        except ZeroDivisionError:
            continue
        assert evaluate(found, point) == value, (text(found), point)


@SETTINGS
@given(expressions, boxes())
def test_what_is_read_has_the_same_value(x, bounds):
    for name, (read, write) in readers(bounds).items():
        found = write(read(x))
        note(f"{name}: {text(x)}  ->  {text(found)}")
        check(found, bounds, lambda point: evaluate(x, point))


@SETTINGS
@given(expressions, expressions, st.integers(-3, 3), boxes())
def test_sums_add_up(x, y, factor, bounds):
    for name, (read, write) in readers(bounds).items():
        found = write(read(x).plus(read(y), factor))
        note(f"{name}: {text(x)} + {text(y)} * {factor}  ->  {text(found)}")
        check(found, bounds, lambda point: evaluate(x, point) + evaluate(y, point) * factor)


@SETTINGS
@given(expressions, boxes())
def test_bounds_of_a_sum_hold(x, bounds):
    low, high = of(x, Context(bounds)).bounds(bounds)
    note(f"{text(x)} in {low}..{high}")
    for point in points(bounds):
        try:
            value = evaluate(x, point)
        except ZeroDivisionError:
            continue
        assert (low is None or low <= value) and (high is None or value <= high), point


@st.composite
def half_open(draw):
    """Bounds of which some are unknown; what is known of them, and numbers within."""
    bounds, within = {}, {}
    for v in VARIABLES:
        low = draw(st.integers(-3, 3))
        high = low + draw(st.integers(0, 4))
        ends = draw(st.sampled_from([(low, high), (low, None), (None, high), (None, None)]))
        bounds[v] = ends
        within[v] = (low - 4 * (ends[0] is None), high + 4 * (ends[1] is None))
    return bounds, within


def products():
    """Products of sums, and of products."""
    sums = st.builds(
        lambda v, c, d: v * c + d,
        st.sampled_from(VARIABLES),
        st.sampled_from([-2, -1, 1, 3]),
        st.integers(-2, 2),
    )
    two = st.builds(lambda a, b: a * b, sums, sums) | st.builds(lambda a: a * a, sums)
    return two | st.builds(lambda a, b: a * b, two, sums)


@SETTINGS
@given(products(), half_open())
def test_bounds_of_a_product_hold_with_ends_unknown(x, sides):
    known, within = sides
    low, high = of(x).bounds(known)
    note(f"{text(x)} in {low}..{high}")
    values = [evaluate(x, point) for point in points(within)]
    assert (low is None or low <= min(values)) and (high is None or max(values) <= high)


@SETTINGS
@given(boxes())
def test_bounds_of_a_product_of_two_variables_are_reached(known):
    for x in (I * J, I * I, I * J * N):
        values = [evaluate(x, point) for point in points(known)]
        assert of(x).bounds(known) == (min(values), max(values))


def test_sizes_of_at_least_one_make_a_product_of_at_least_one():
    assert of(I * J).bounds({I: (1, None), J: (1, None)}) == (1, None)
    assert of(I * J).bounds({I: (1, None), J: (0, None)}) == (0, None)
    assert of(I * J).bounds({I: (None, -2), J: (3, None)}) == (None, -6)
    assert of(I * J).bounds({I: (1, None), J: (None, None)}) == (None, None)
    assert of(I * I).bounds({}) == (0, None)
    assert simplified(0 < I * J, Context({I: (1, None), J: (1, None)})).value == 1


@SETTINGS
@given(expressions, boxes())
def test_ends_while_some_variables_run(x, bounds):
    """Ends are sums of the variables that do not run."""
    inner = {I: bounds[I], J: bounds[J]}
    found = interval(of(x), inner)
    if found is None:
        return
    low, high = (end.expr("int32") for end in found)
    note(f"{text(x)} in {text(low)}..{text(high)}")
    for point in points(bounds):
        try:
            value = evaluate(x, point)
            ends = evaluate(low, point), evaluate(high, point)
        except ZeroDivisionError:
            continue
        assert ends[0] <= value <= ends[1], point


@SETTINGS
@given(expressions, boxes(), st.data())
def test_values_put_in(x, bounds, data):
    told = {v: data.draw(st.integers(low, high)) for v, (low, high) in bounds.items()}
    context = Context(bounds, {v: Sum(n) for v, n in told.items()})
    try:
        value = evaluate(x, told)
    except ZeroDivisionError:
        return
    assert evaluate(simplified(x, context), {}) == value


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint32", "int64"])
@SETTINGS
@given(expressions, boxes(), st.integers(-300, 300))
def test_bounds_of_a_cast_hold(kind, x, bounds, offset):
    """A dtype that is too narrow for a number wraps it around."""
    to = dtype(kind)
    shifted = e.Add(x, p.const(offset, "int32"))
    low, high = of(e.Cast(to, shifted), Context(bounds)).bounds(bounds)
    for point in points(bounds):
        try:
            value = evaluate(shifted, point)
        except ZeroDivisionError:
            continue
        wrapped = (value - to.min_value) % (1 << to.bits) + to.min_value
        assert (low is None or low <= wrapped) and (high is None or wrapped <= high), point


def test_a_sum_that_wraps_around_before_a_cast_has_no_bounds():
    """200 + 100 is 44 in uint8."""
    v = e.Var("v", "uint8")
    x = e.Cast(INT32, e.Add(v, p.const(100, "uint8")))
    assert of(x).bounds({v: (200, 200)}) != (300, 300)


U, V = e.Var("u", "uint8"), e.Var("v", "uint8")
WRAPPING = {
    e.Add: lambda a, b: (a + b) % 256,
    e.Sub: lambda a, b: (a - b) % 256,
    e.Mul: lambda a, b: a * b % 256,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: min,
    e.Max: max,
}


@st.composite
def bytes_of(draw, depth=3):
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([U, V, *(p.const(n, "uint8") for n in (1, 2, 3, 100, 200))]))
    kind = draw(st.sampled_from(list(WRAPPING)))
    a = draw(bytes_of(depth - 1))
    divides = kind in (e.FloorDiv, e.FloorMod)
    return kind(
        a, p.const(draw(st.integers(1, 9)), "uint8") if divides else draw(bytes_of(depth - 1))
    )


def byte(x, values):
    if isinstance(x, e.IntImm):
        return x.value
    if isinstance(x, e.Var):
        return values[x]
    if isinstance(x, e.LT):
        return int(byte(x.a, values) < byte(x.b, values))
    return WRAPPING[type(x)](byte(x.a, values), byte(x.b, values))


@SETTINGS
@given(bytes_of(), bytes_of(), st.integers(0, 255), st.integers(0, 255))
def test_what_wraps_around_keeps_its_value(x, y, u, v):
    """Bytes, of which (u * 2 + 200) // 2 is not u + 100."""
    given, told = {U: u, V: v}, Context(values={V: Sum(v)})
    assert byte(simplified(x, told), given) == byte(x, given)
    assert byte(simplified(e.LT(x, y), told), given) == byte(e.LT(x, y), given)


@pytest.mark.parametrize(
    ("x", "last", "short"),
    [(I * 45 // 2, 1, I * 22), (I * 19 // 6, 5, I * 3), (I * 45 // 2, 2, I * 45 // 2)],
)
def test_a_quotient_whose_coefficient_is_more_than_its_divisor(x, last, short):
    """(v * 45) // 2 is v * 22 where v is 0 or 1."""
    context = Context({I: (0, last)})
    assert text(of(x, context).expr("int32")) == text(of(short, Context({})).expr("int32"))
    for i in range(last + 1):
        assert evaluate(of(x, context).expr("int32"), {I: i}) == evaluate(x, {I: i})
