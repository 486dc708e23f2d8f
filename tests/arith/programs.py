"""Random integer expressions, and their values by plain Python."""

from __future__ import annotations

import itertools
import os

from hypothesis import strategies as st

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

#: how many times as many random cases a run at home looks at: MLCNB_FUZZ=100
FUZZ = int(os.environ.get("MLCNB_FUZZ", "1"))


def evaluate(x, values):
    """The value of an expression; ZeroDivisionError where it divides by zero."""
    match x:
        case e.IntImm(value):
            return value
        case e.Var():
            return values[x]
        case e.Select(c, a, b):
            return evaluate(a if evaluate(c, values) else b, values)
        case e.Call(_, "tir.if_then_else", (c, a, b)):
            return evaluate(a if evaluate(c, values) else b, values)
        case e.And(a, b):
            return int(evaluate(a, values) and evaluate(b, values))
        case e.Or(a, b):
            return int(evaluate(a, values) or evaluate(b, values))
        case e.Not(a):
            return int(not evaluate(a, values))
        case e.Call(_, "tir.shift_right", (a, b)):
            return evaluate(a, values) >> evaluate(b, values)
        case e.Cast(_, value):
            return evaluate(value, values)
    return int(OPERATIONS[type(x)](evaluate(x.a, values), evaluate(x.b, values)))


def _trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Div: _trunc_div,
    e.Mod: lambda a, b: a - _trunc_div(a, b) * b,
    e.Min: min,
    e.Max: max,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
}


def text(x):
    """An expression as text, for messages of failing tests."""
    names = {
        e.Add: "+", e.Sub: "-", e.Mul: "*", e.FloorDiv: "//", e.FloorMod: "%", e.LT: "<",
        e.LE: "<=", e.GT: ">", e.GE: ">=", e.EQ: "==", e.NE: "!=", e.And: "and", e.Or: "or",
        e.Div: "/", e.Mod: "truncmod",
    }  # fmt: skip
    match x:
        case e.Var():
            return x.name
        case e.IntImm(value):
            return str(value)
        case e.Call(_, op, args):
            return f"{op[4:]}({', '.join(map(text, args))})"
        case e.Select(c, a, b):
            return f"select({text(c)}, {text(a)}, {text(b)})"
        case e.Not(a):
            return f"not {text(a)}"
        case e.Cast(kind, a):
            return f"{kind}({text(a)})"
    if type(x) in names:
        return f"({text(x.a)} {names[type(x)]} {text(x.b)})"
    return f"{type(x).__name__.lower()}({text(x.a)}, {text(x.b)})"


def points(bounds):
    """All assignments of variables within inclusive bounds."""
    variables = list(bounds)
    ranges = [range(low, high + 1) for low, high in bounds.values()]
    for values in itertools.product(*ranges):
        yield dict(zip(variables, values, strict=True))


_ARITHMETIC = [e.Add, e.Sub, e.Add, e.Sub, e.Min, e.Max]
_COMPARISON = [e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE]


def integers_over(variables, depth=3):
    """Random int32 expressions over some variables."""
    small = st.integers(-9, 9).map(lambda v: e.IntImm(p.dtype("int32"), v))
    leaf = st.sampled_from(variables) | st.sampled_from(variables) | small
    positive = st.sampled_from([2, 3, 4, 6, 8, 12, 16]).map(lambda v: p.const(v))
    factor = st.sampled_from([-3, -1, 2, 3, 4, 8, 16]).map(lambda v: p.const(v))
    if depth == 0:
        return leaf
    inner = integers_over(variables, depth - 1)
    condition = conditions_over(variables, depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda k, a, b: k(a, b), st.sampled_from(_ARITHMETIC), inner, inner),
        st.builds(e.Mul, inner, factor),
        st.builds(e.FloorDiv, inner, positive),
        st.builds(e.FloorMod, inner, positive),
        st.builds(e.FloorDiv, inner, factor),
        st.builds(e.FloorMod, inner, factor),
        st.builds(e.Div, inner, positive),
        st.builds(e.Mod, inner, positive),
        st.builds(e.Mul, inner, inner),
        st.builds(e.FloorDiv, inner, st.sampled_from(variables)),
        st.builds(e.FloorMod, inner, st.sampled_from(variables)),
        st.builds(p.if_then_else, condition, inner, inner),
        st.builds(p.select, condition, inner, inner),
    )


def conditions_over(variables, depth=2):
    """Random conditions over some variables."""
    inner = integers_over(variables, max(depth, 0))
    comparison = st.builds(lambda k, a, b: k(a, b), st.sampled_from(_COMPARISON), inner, inner)
    if depth <= 0:
        return comparison
    part = conditions_over(variables, depth - 1)
    return st.one_of(
        comparison,
        comparison,
        st.builds(e.And, part, part),
        st.builds(e.Or, part, part),
        st.builds(e.Not, part),
    )
