"""Between what a float expression lies, and whether it may be NaN: what its form alone says.

T.Cast("float32", u8)                  0 … 255, a number
T.max(T.min(x, 127.0), -128.0)         -128 … 127, or NaN where x is
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from mlcnb.ir import expr as e


class Bounds(NamedTuple):
    """The lowest and highest value, and whether NaN may be there too."""

    low: float
    high: float
    nan: bool

    @property
    def is_number(self) -> bool:
        """True if there is no NaN."""
        return not self.nan


UNKNOWN = Bounds(-math.inf, math.inf, True)


def bounds(x: e.PrimExpr) -> Bounds:
    """The bounds of a float expression; UNKNOWN where its form says nothing."""
    rule = _RULES.get(type(x))
    return UNKNOWN if rule is None else rule(x)


def is_rounding(x: e.PrimExpr) -> bool:
    """True for `T.round` and `T.nearbyint`: to a whole number, halves to even."""
    return isinstance(x, e.Call) and x.op in ("tir.round", "tir.nearbyint")


def _literal(x: e.FloatImm) -> Bounds:
    return UNKNOWN if math.isnan(x.value) else Bounds(x.value, x.value, False)


def _cast(x: e.Cast) -> Bounds:
    """An integer as a float: exact in float32 up to 24 bits."""
    kind = x.value.dtype.element
    if not kind.is_integer or kind.bits > 16:
        return UNKNOWN
    return Bounds(float(kind.min_value), float(kind.max_value), False)


def _add(x: e.Add) -> Bounds:
    return _sum(bounds(x.a), bounds(x.b))


def _subtract(x: e.Sub) -> Bounds:
    b = bounds(x.b)
    return _sum(bounds(x.a), Bounds(-b.high, -b.low, b.nan))


def _sum(a: Bounds, b: Bounds) -> Bounds:
    ends = (a.low, a.high, b.low, b.high)
    if not all(map(math.isfinite, ends)):
        return UNKNOWN  # the sum of two infinities may be NaN
    return Bounds(a.low + b.low, a.high + b.high, a.nan or b.nan)


def _extreme(choose: Callable[[float, float], float]) -> Callable[[Any], Bounds]:
    def rule(x: Any) -> Bounds:
        a, b = bounds(x.a), bounds(x.b)
        return Bounds(choose(a.low, b.low), choose(a.high, b.high), a.nan or b.nan)

    return rule


def _call(x: e.Call) -> Bounds:
    if not is_rounding(x):
        return UNKNOWN
    low, high, nan = bounds(x.args[0])
    low, high = (v if math.isinf(v) else float(round(v)) for v in (low, high))
    return Bounds(low, high, nan)


_RULES: dict[type, Callable[[Any], Bounds]] = {
    e.FloatImm: _literal,
    e.Broadcast: lambda x: bounds(x.value),
    e.Cast: _cast,
    e.Add: _add,
    e.Sub: _subtract,
    e.Min: _extreme(min),
    e.Max: _extreme(max),
    e.Call: _call,
}
