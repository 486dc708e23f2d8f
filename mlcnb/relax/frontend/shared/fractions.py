"""Floats that are computed from sizes, followed as exact fractions.

    Cast(h, float) / 8.0          h over 8          floor of it     h // 8
    Cast(h, float) * 0.5 + 1.0    (h + 2) over 2    Cast to int64   (h + 2) // 2

Followed is what float32 computes without rounding, or with one that the next rounding to a whole
number undoes: sizes and constants are below 2**24. All else is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr

#: numerators and denominators of constants: products with sizes are exact in float32
_MOST = 1 << 10


class NoFraction(Exception):
    """A float that is not followed."""


@dataclass(frozen=True)
class Sizes:
    """`top` over `bottom`: an expression of sizes, and a positive number."""

    top: PrimExpr
    bottom: int

    @property
    def is_exact(self) -> bool:
        """True where a float holds it: the denominator is a power of two."""
        return self.bottom & (self.bottom - 1) == 0


def fraction(x: PrimExpr) -> Sizes:
    """A float expression as a fraction of sizes.

    Raises:
        NoFraction: it is none, or floats would round it.
    """
    if x.dtype.is_integer:
        return Sizes(x, 1)
    if isinstance(x, e.Cast):
        return fraction(x.value)
    if isinstance(x, e.FloatImm):
        return _constant(x.value)
    rule = _CALLS.get(x.op) if isinstance(x, e.Call) else _RULES.get(type(x))  # type: ignore[arg-type]
    if rule is None:
        raise NoFraction
    return rule(*map(fraction, x.args if isinstance(x, e.Call) else (x.a, x.b)))  # type: ignore[attr-defined]


def as_float(x: Sizes, kind: Any) -> PrimExpr:
    """The fraction as an expression that `fraction` reads back."""
    top = p.cast(kind, x.top)
    return top if x.bottom == 1 else e.Div(top, p.const(float(x.bottom), kind))


def truncated(x: Sizes) -> PrimExpr:
    """The whole number that a cast makes of it: towards zero."""
    if x.bottom == 1:
        return x.top
    names = {v: (0, None) for v in walk(x.top) if isinstance(v, e.Var)}
    if not Analyzer(names).can_prove(x.top >= 0):
        raise NoFraction
    return p.floordiv(x.top, x.bottom)


def _constant(value: float) -> Sizes:
    if not math.isfinite(value):
        raise NoFraction
    exact = Fraction(value)
    if abs(exact.numerator) > (_MOST if exact.denominator > 1 else 1 << 24):
        raise NoFraction
    if exact.denominator > _MOST:
        raise NoFraction
    return Sizes(p.const(exact.numerator, "int64"), exact.denominator)


def _linear(apply: Callable[[Any, Any], PrimExpr]) -> Callable[[Sizes, Sizes], Sizes]:
    def run(a: Sizes, b: Sizes) -> Sizes:
        if not (a.is_exact and b.is_exact):
            raise NoFraction
        bottom = max(a.bottom, b.bottom)
        return Sizes(apply(a.top * (bottom // a.bottom), b.top * (bottom // b.bottom)), bottom)

    return run


def _product(a: Sizes, b: Sizes) -> Sizes:
    if not (a.is_exact and b.is_exact) or a.bottom * b.bottom > _MOST:
        raise NoFraction
    return Sizes(a.top * b.top, a.bottom * b.bottom)


def _quotient(a: Sizes, b: Sizes) -> Sizes:
    by = p.as_int(b.top)
    if by is None or by <= 0 or not a.is_exact:
        raise NoFraction
    if a.bottom * by > _MOST:
        raise NoFraction
    return Sizes(a.top * b.bottom, a.bottom * by)


def _floor(a: Sizes) -> Sizes:
    return Sizes(p.floordiv(a.top, a.bottom) if a.bottom > 1 else a.top, 1)


def _ceil(a: Sizes) -> Sizes:
    return Sizes(p.neg(p.floordiv(p.neg(a.top), a.bottom)) if a.bottom > 1 else a.top, 1)


def _whole(a: Sizes) -> Sizes:
    if a.bottom != 1:
        raise NoFraction
    return a


_RULES: dict[type, Callable[..., Sizes]] = {
    e.Add: _linear(p.add), e.Sub: _linear(p.subtract), e.Min: _linear(p.minimum),
    e.Max: _linear(p.maximum), e.Mul: _product, e.Div: _quotient,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Sizes]] = {
    "tir.floor": _floor, "tir.ceil": _ceil, "tir.round": _whole, "tir.nearbyint": _whole,
    "tir.trunc": lambda a: Sizes(truncated(a), 1),
}  # fmt: skip
