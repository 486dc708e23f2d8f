"""sinh, cosh and the inverse hyperbolic functions in float32 and float64, by exponentials and
logarithms.

sinh x  = (e + e / (e + 1)) / 2          e = e^|x| - 1, and the sign of x
cosh x  = (h + 1 / h) / 2                h = e^|x|
both    = (h / 2) h, h = e^(|x| / 2)     where e^|x| may be no such float
asinh x = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))
acosh x = log1p(t + sqrt(2 t + t^2))     t = x - 1
both    = log |x| + log 2                where x^2 is no such float, or 1 does not count beside it
atanh x = log1p(2 |x| / (1 - |x|)) / 2
"""

from __future__ import annotations

import math

from mlcnb.codegen.llvm.math.build import Body, Value
from mlcnb.codegen.llvm.math.exponential import exp, exp_wide, expm1, expm1_wide
from mlcnb.codegen.llvm.math.logarithm import log, log1p, log1p_wide, log_wide

_EXP = {"float": exp, "double": exp_wide}
_EXPM1 = {"float": expm1, "double": expm1_wide}
_LOG = {"float": log, "double": log_wide}
_LOG1P = {"float": log1p, "double": log1p_wide}
_LARGE_EXPONENT = {"float": 80.0, "double": 700.0}
_LARGE = 2.0**60
_LN2 = {"float": float.fromhex("0x1.62e430p-1"), "double": math.log(2)}


def sinh(b: Body, x: Value) -> Value:
    """Hyperbolic sine; +-inf beyond 89.4, in float64 beyond 710.4."""
    magnitude = b.absolute(x)
    e = _EXPM1[x.kind](b, magnitude)
    near = (e + e / (e + 1.0)) * 0.5
    return b.signed_like(
        b.select(magnitude.gt(_LARGE_EXPONENT[x.kind]), _half_exp(b, magnitude), near), x
    )


def cosh(b: Body, x: Value) -> Value:
    """Hyperbolic cosine; inf beyond 89.4, in float64 beyond 710.4."""
    magnitude = b.absolute(x)
    e = _EXP[x.kind](b, magnitude)
    near = (e + b.constant(1.0, x.kind) / e) * 0.5
    return b.select(magnitude.gt(_LARGE_EXPONENT[x.kind]), _half_exp(b, magnitude), near)


def asinh(b: Body, x: Value) -> Value:
    """Inverse hyperbolic sine."""
    magnitude = b.absolute(x)
    large = magnitude.gt(_LARGE)
    held = b.select(large, 1.0, magnitude)
    square = held * held
    given = held + square / (b.root(square + 1.0) + 1.0)
    return b.signed_like(_or_log(b, large, magnitude, _LOG1P[x.kind](b, given)), x)


def acosh(b: Body, x: Value) -> Value:
    """Inverse hyperbolic cosine; nan below 1."""
    large = x.gt(_LARGE)
    t = b.select(large, 1.0, x) - 1.0
    found = _LOG1P[x.kind](b, t + b.root(b.fma(t, t, t + t)))
    return b.select(x.lt(1.0), math.nan, _or_log(b, large, x, found))


def atanh(b: Body, x: Value) -> Value:
    """Inverse hyperbolic tangent; +-inf at +-1, nan beyond."""
    magnitude = b.absolute(x)
    given = (magnitude + magnitude) / (b.constant(1.0, x.kind) - magnitude)
    return b.signed_like(_LOG1P[x.kind](b, given) * 0.5, x)


def _half_exp(b: Body, magnitude: Value) -> Value:
    """e^x / 2 for a large x."""
    half = _EXP[magnitude.kind](b, magnitude * 0.5)
    return (half * 0.5) * half


def _or_log(b: Body, large: Value, x: Value, found: Value) -> Value:
    """What was found, or log 2x where x is large."""
    return b.select(large, _LOG[x.kind](b, b.select(large, x, 1.0)) + _LN2[x.kind], found)
