"""Random integer expressions of narrow and unsigned dtypes, and their values on a machine."""

from __future__ import annotations

from hypothesis import strategies as st

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import OPERATIONS

KINDS = ["int8", "uint8", "int16", "uint32", "int32", "int64"]


def wrapped(value, kind):
    """A number as a dtype keeps it."""
    if kind.is_bool:
        return int(bool(value))
    low, size = kind.min_value, kind.max_value - kind.min_value + 1
    return (value - low) % size + low


def evaluate(x, values):
    """The value of an expression where every operation wraps around at the ends of its dtype."""
    match x:
        case e.IntImm(value):
            return value
        case e.Var():
            return values[x]
        case e.Select(c, a, b):
            return evaluate(a if evaluate(c, values) else b, values)
        case e.Call(_, "tir.if_then_else", (c, a, b)):
            return evaluate(a if evaluate(c, values) else b, values)
        case e.Not(a):
            return int(not evaluate(a, values))
        case e.Cast(kind, value):
            return wrapped(evaluate(value, values), kind)
        case e.And(a, b):
            return int(evaluate(a, values) and evaluate(b, values))
        case e.Or(a, b):
            return int(evaluate(a, values) or evaluate(b, values))
    found = int(OPERATIONS[type(x)](evaluate(x.a, values), evaluate(x.b, values)))
    return found if isinstance(x, e.CmpOp) else wrapped(found, x.dtype)


@st.composite
def expressions(draw, variables, kind, depth=3):
    """An expression of a dtype over variables of several dtypes."""
    mine = [v for v in variables if v.dtype == kind]
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        low = max(p.dtype(kind).min_value, -9)
        constant = e.IntImm(p.dtype(kind), draw(st.integers(low, 20)))
        return draw(st.sampled_from([*mine, *mine, constant]))
    if draw(st.integers(0, 3)) == 0:
        other = draw(st.sampled_from(KINDS))
        return e.Cast(p.dtype(kind), draw(expressions(variables, other, depth - 1)))
    a, b = (draw(expressions(variables, kind, depth - 1)) for _ in range(2))
    choice = draw(st.integers(0, 9))
    if choice == 0:
        comparison = draw(st.sampled_from([e.LT, e.LE, e.EQ, e.NE]))
        other = draw(st.sampled_from(KINDS))
        c, d = (draw(expressions(variables, other, depth - 1)) for _ in range(2))
        return e.Select(comparison(c, d), a, b)
    build = draw(st.sampled_from([e.Add, e.Sub, e.Min, e.Max, e.Mul, e.FloorDiv, e.FloorMod]))
    if build in (e.FloorDiv, e.FloorMod):
        b = e.IntImm(p.dtype(kind), draw(st.sampled_from([1, 2, 3, 4, 8])))
    return build(a, b)
