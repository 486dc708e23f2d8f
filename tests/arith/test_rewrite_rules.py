"""Every rule of the rewrite simplifier says the truth: both sides are computed, by plain Python.

The text of a rule is read here a second time, so that a fault of the matcher is found too: what the
rule makes of an expression is compared with what its text says.
"""

from __future__ import annotations

import ast
import itertools
import operator
import random

import pytest
from hypothesis import given, settings

from mlcnb.arith import Analyzer
from mlcnb.arith.rewrite import divisions, extrema, logic, pattern, sums
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith import wrapping
from tests.arith.programs import FUZZ, conditions_over, evaluate, integers_over, points, text

SCALARS = list(
    pattern.texts(
        sums.ADD, sums.SUBTRACT, sums.MULTIPLY, sums.CANCEL, sums.CHOICE, divisions.TRUNCATED,
        divisions.FLOOR, extrema.ROUNDED, extrema.MINIMA, extrema.MAXIMA, logic.EQUAL, logic.LESS,
    )
)  # fmt: skip
CONDITIONS = list(pattern.texts(logic.NOT, logic.AND, logic.OR))
VECTORS = list(pattern.texts(sums.VECTORS, divisions.VECTORS, extrema.VECTORS, logic.VECTORS))


def trunc(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def lanewise(fn):
    """`fn` of numbers, or of the lanes of vectors."""

    def each(*args):
        lanes = {len(a) for a in args if isinstance(a, tuple)}
        if not lanes:
            return fn(*args)
        (n,) = lanes
        vectors = [a if isinstance(a, tuple) else (a,) * n for a in args]
        return tuple(map(fn, *vectors))

    return each


OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.USub: operator.neg, ast.Not: operator.not_,
    ast.And: lambda a, b: bool(a) and bool(b), ast.Or: lambda a, b: bool(a) or bool(b),
}  # fmt: skip

FUNCTIONS = {
    "tdiv": lanewise(trunc),
    "tmod": lanewise(lambda a, b: a - trunc(a, b) * b),
    "min": lanewise(min),
    "max": lanewise(max),
    "select": lambda c, a, b: a if c else b,
    "ramp": lambda base, stride, n: tuple(base + stride * i for i in range(n)),
    "bcast": lambda value, n: (value,) * n,
    "nonneg": lambda a: a >= 0,
    "equal": operator.eq,
    "less": operator.lt,
    "scalable": lambda _a: True,
}


def value(tree, names):
    match tree:
        case ast.Name(name):
            return names[name]
        case ast.Constant(number):
            return number
        case ast.BinOp(a, op, b):
            return lanewise(OPERATORS[type(op)])(value(a, names), value(b, names))
        case ast.UnaryOp(op, a):
            return lanewise(OPERATORS[type(op)])(value(a, names))
        case ast.Compare(a, [op], [b]):
            return lanewise(OPERATORS[type(op)])(value(a, names), value(b, names))
        case ast.BoolOp(op, parts):
            found = value(parts[0], names)
            for part in parts[1:]:
                if isinstance(op, ast.And) and found is False:
                    return False
                found = lanewise(OPERATORS[type(op)])(found, value(part, names))
            return found
        case ast.Call(ast.Name(name), args):
            return FUNCTIONS[name](*(value(arg, names) for arg in args))
    raise AssertionError(ast.dump(tree))


def parts_of(rule):
    """(patterns, result, condition) of a rule, as trees."""
    before, after = rule.split("=>" if "=>" in rule else "->")
    after, _, condition = after.partition(" if ")
    trees = [ast.parse(x.strip() or "True", mode="eval").body for x in (before, after, condition)]
    patterns = [trees[0]]
    while isinstance(patterns[0], ast.BinOp) and isinstance(patterns[0].op, ast.BitOr):
        patterns[:1] = [patterns[0].left, patterns[0].right]
    return patterns, trees[1], trees[2]


def free_names(*trees):
    return sorted(
        {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(FUNCTIONS)
    )


def assignments(names, rule):
    """Numbers for the names: all small ones where these are few, else many at random."""
    if len(names) <= 2:
        yield from itertools.product(range(-7, 9), repeat=len(names))
    rng = random.Random(rule)
    choices = [*range(-9, 10), *range(-3, 4), 12, 16, -12]
    for _ in range(300 * FUZZ):
        yield tuple(rng.choice(choices) for _ in names)
    for _ in range(500 * FUZZ):  # constants that belong together: c3 = c1 * c2, c1 = -c2
        found = dict(zip(names, (rng.choice(choices) for _ in names), strict=True))
        if {"c1", "c2", "c3"} <= set(names) and rng.random() < 0.7:
            found["c3"] = found["c1"] * found["c2"]
        elif {"c1", "c2"} <= set(names):
            found["c2"] = rng.choice([-found["c1"], found["c1"] + 1, found["c1"] * 2])
        yield tuple(found[name] for name in names)


@pytest.mark.parametrize("rule", [*SCALARS, *CONDITIONS, *VECTORS])
def test_a_rule_keeps_the_value(rule):
    patterns, after, condition = parts_of(rule)
    names = free_names(*patterns, after, condition)
    matched = 0
    for numbers in assignments(names, rule):
        values = dict(zip(names, numbers, strict=True))
        if rule in VECTORS:
            values["n"] = 1 + abs(values["n"]) % 4
        try:
            if not value(condition, values):
                continue
            before = [value(pattern, values) for pattern in patterns]
        except ZeroDivisionError:
            continue
        found = value(after, values)
        for one in before:
            same = bool(one) == bool(found) if rule in CONDITIONS else one == found
            assert same, (rule, values)
        matched += 1
    assert matched >= 3, f"only {matched} assignments fulfil the condition of {rule}"


X, Y, N = e.Var("x"), e.Var("y"), e.Var("n")
SMALL = {X: (-5, 6), Y: (0, 7), N: (1, 4)}


def rewritten(x, bounds):
    return Analyzer(bounds).rewrite_simplify(x)


@settings(max_examples=60 * FUZZ)
@given(integers_over([X, Y, N]))
def test_a_rewritten_index_has_the_value_it_had(x):
    for bounds in (SMALL, {}):
        short = rewritten(x, bounds)
        for values in points(SMALL):
            try:
                expected = evaluate(x, values)
            except ZeroDivisionError:
                continue
            assert evaluate(short, values) == expected, (text(x), text(short), values)


@settings(max_examples=60 * FUZZ)
@given(conditions_over([X, Y, N]))
def test_a_rewritten_condition_holds_where_it_held(x):
    short = rewritten(x, {})
    for values in points(SMALL):
        try:
            expected = bool(evaluate(x, values))
        except ZeroDivisionError:
            continue
        assert bool(evaluate(short, values)) == expected, (text(x), text(short), values)


@settings(max_examples=60 * FUZZ)
@given(conditions_over([X, Y], depth=1), integers_over([X, Y, N], depth=2))
def test_a_rewritten_index_has_its_value_where_a_constraint_holds(condition, x):
    analyzer = Analyzer()
    with analyzer.constraint_scope(condition):
        short = analyzer.rewrite_simplify(x)
    for values in points(SMALL):
        try:
            expected = evaluate(x, values) if evaluate(condition, values) else None
        except ZeroDivisionError:
            continue
        if expected is not None:
            assert evaluate(short, values) == expected, (text(x), text(short), values)


NARROW = [
    e.Var(f"v_{kind}", p.dtype(kind)) for kind in wrapping.KINDS if kind[-2:] not in ("32", "64")
]


@settings(max_examples=60 * FUZZ)
@given(wrapping.expressions(NARROW, "int8") | wrapping.expressions(NARROW, "uint8"))
def test_narrow_integers_wrap_around_as_before(x):
    short = rewritten(x, {})
    rng = random.Random(0)
    for _ in range(30):
        values = {v: rng.choice(extremes(v.dtype)) for v in NARROW}
        try:
            expected = wrapping.evaluate(x, values)
        except ZeroDivisionError:
            continue
        assert wrapping.evaluate(short, values) == expected, (text(x), text(short), values)


def extremes(kind):
    low, high = kind.min_value, kind.max_value
    return [low, low + 1, 0, 1, 2, 3, 5, high // 2, high - 1, high]


@settings(max_examples=60 * FUZZ)
@given(integers_over([X, Y, N], depth=2))
def test_what_is_rewritten_stays(x):
    analyzer = Analyzer()
    short = analyzer.rewrite_simplify(x)
    for _ in range(4):
        again = analyzer.rewrite_simplify(short)
        if text(again) == text(short):
            return
        short = again
    raise AssertionError(f"{text(x)} never comes to rest: {text(short)}, {text(again)}")
