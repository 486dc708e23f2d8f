"""What an operation does, by its class: to expressions, which are folded, and to numbers.

FOLDING[e.Add](i, 0) -> i          NUMBERS[e.Add](2, 3) -> 5
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

Binary = Callable[[Any, Any], e.PrimExpr]

SUMS: dict[type, Binary] = {
    e.Add: p.add, e.Sub: p.subtract, e.Mul: p.multiply, e.Min: p.minimum, e.Max: p.maximum,
}  # fmt: skip
DIVISIONS: dict[type, Binary] = {e.FloorDiv: p.floordiv, e.FloorMod: p.floormod}
#: of integers; of floats, Div and Mod are others
TRUNCATED: dict[type, Binary] = {e.Div: p.truncdiv, e.Mod: p.truncmod}
#: what has no value where the right side is 0
DIVIDING: tuple[type[e.BinaryOp], ...] = (e.FloorDiv, e.FloorMod, e.Div, e.Mod)
COMPARISONS: dict[type, Binary] = {
    e.EQ: p.equal, e.NE: p.not_equal, e.LT: p.less, e.LE: p.less_equal, e.GT: p.greater,
    e.GE: p.greater_equal,
}  # fmt: skip
FOLDING: dict[type, Binary] = {
    **SUMS, **DIVISIONS, **COMPARISONS, e.And: p.logical_and, e.Or: p.logical_or,
}  # fmt: skip

#: the same of Python's numbers
NUMBERS: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: operator.add, e.Sub: operator.sub, e.Mul: operator.mul, e.Min: min, e.Max: max,
    e.FloorDiv: operator.floordiv, e.FloorMod: operator.mod, e.EQ: operator.eq, e.NE: operator.ne,
    e.LT: operator.lt, e.LE: operator.le, e.GT: operator.gt, e.GE: operator.ge,
    e.And: lambda a, b: a and b, e.Or: lambda a, b: a or b,
}  # fmt: skip

#: what makes whole numbers of floats
_ROUNDING: dict[str, Callable[[float], Any]] = {
    "tir.ceil": math.ceil, "tir.floor": math.floor, "tir.trunc": math.trunc,
    "tir.round": round, "tir.nearbyint": round,
}  # fmt: skip


def folded_choice(x: Any) -> e.PrimExpr | None:
    """A cast, a negation or a choice built again, as its operands have changed; None for others."""
    if isinstance(x, e.Cast):
        return p.cast(x.dtype, x.value)
    if isinstance(x, e.Not):
        return p.logical_not(x.a)
    if isinstance(x, e.Select):
        return p.select(x.condition, x.true_value, x.false_value)
    if isinstance(x, e.Call) and x.op == "tir.if_then_else":
        return p.if_then_else(*x.args)
    return None


def folded_call(x: Any) -> e.PrimExpr:
    """A call of constants as a constant; what depends on how a target rounds stays."""
    if not isinstance(x, e.Call) or not x.args or not isinstance(x.op, str):
        return x
    if x.op in _ROUNDING:
        value = _whole_of(x.args[0])
        return x if value is None else e.FloatImm(x.dtype, float(_ROUNDING[x.op](value)))
    values = [n.value for n in x.args if isinstance(n, e.IntImm)]
    if x.op == "tir.likely" and values:
        return x.args[0]
    if len(values) != len(x.args):
        return x
    if x.op in ("tir.shift_left", "tir.shift_right") and 0 <= values[1] < x.dtype.bits:
        return (p.shift_left if x.op == "tir.shift_left" else p.shift_right)(*x.args)
    if x.op in ("tir.clz", "tir.popcount"):
        bits = x.args[0].dtype.bits
        pattern = values[0] & ((1 << bits) - 1)
        many = bits - pattern.bit_length() if x.op == "tir.clz" else pattern.bit_count()
        return p.const(many, x.dtype)
    return x


def _whole_of(x: e.PrimExpr) -> float | None:
    """A finite constant, or the logarithm of one, which every target puts between the same whole
    numbers unless it is one.
    """
    if isinstance(x, e.FloatImm) and math.isfinite(x.value):
        return x.value
    if isinstance(x, e.Call) and x.op == "tir.log2":
        inner: Any = x.args[0]
        inner = inner.value if isinstance(inner, e.Cast) else inner
        if isinstance(inner, e.IntImm | e.FloatImm) and 0 < inner.value < math.inf:
            return math.log2(float(inner.value))
    return None
