"""atan, asin and acos in float32.

The way from x to the result:

    atan x = t + t^3 A(t^2)                  t = |x| up to 1, else 1 / |x| and pi/2 less the result
    asin x = x + x^3 S(x^2)                  |x| up to 1/2
           = pi/2 - 2 asin sqrt((1 - |x|) / 2)      above; acos x = pi/2 - asin x, without the loss
                                             near 1, where it is twice that angle itself

A of degree 8 and S of degree 4, from `fit.py`; pi/2 and pi in two parts; the sign of x at the end.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value

_f = float.fromhex
_HALF_PI_HIGH = _f("0x1.921fb6p+0")
_HALF_PI_LOW = _f("-0x1.777a5cp-25")

ATAN_A = (
    _f("-0x1.55553ep-2"),
    _f("0x1.9991fep-3"),
    _f("-0x1.2421b6p-3"),
    _f("0x1.c099fep-4"),
    _f("-0x1.583490p-4"),
    _f("0x1.dac9e2p-5"),
    _f("-0x1.fed15ep-6"),
    _f("0x1.65a65ap-7"),
    _f("-0x1.d62fecp-10"),
)
ASIN_A = (
    _f("0x1.5555c8p-3"),
    _f("0x1.3301ccp-4"),
    _f("0x1.7480e0p-5"),
    _f("0x1.8c0cb6p-6"),
    _f("0x1.598628p-5"),
)


def atan(b: Body, x: Value) -> Value:
    """Inverse tangent; +-pi/2 at infinity."""
    magnitude = b.absolute(x)
    far = magnitude.gt(1.0)
    t = b.select(far, b.constant(1.0, "float") / magnitude, magnitude)
    square = t * t
    near = b.fma(b.polynomial(square, ATAN_A) * square, t, t)
    return b.signed_like(b.select(far, _less(b, near), near), x)


def asin(b: Body, x: Value) -> Value:
    """Inverse sine; nan beyond +-1."""
    magnitude = b.absolute(x)
    far, angle = _angle(b, magnitude)
    return b.signed_like(b.select(far, _less(b, angle + angle), angle), x)


def acos(b: Body, x: Value) -> Value:
    """Inverse cosine; nan beyond +-1."""
    far, angle = _angle(b, b.absolute(x))
    negative = x.lt(0.0)
    signed = b.select(negative, angle * -1.0, angle)
    turn = b.select(negative, 2.0 * _HALF_PI_HIGH, b.constant(0.0, "float"))
    rest = b.select(negative, 2.0 * _HALF_PI_LOW, b.constant(0.0, "float"))
    steep = turn + (b.fma(signed, 2.0, rest))
    return b.select(far, steep, _less(b, signed))


def _angle(b: Body, magnitude: Value) -> tuple[Value, Value]:
    """Whether |x| is above 1/2, and asin |x|, there of sqrt((1 - |x|) / 2)."""
    far = magnitude.gt(0.5)
    square = b.select(far, b.fma(magnitude, -0.5, 0.5), magnitude * magnitude)
    root = b.select(far, b.root(square), magnitude)
    return far, b.fma(b.polynomial(square, ASIN_A) * square, root, root)


def _less(b: Body, angle: Value) -> Value:
    """pi/2 - angle."""
    return b.constant(_HALF_PI_HIGH, "float") - (angle - _HALF_PI_LOW)
