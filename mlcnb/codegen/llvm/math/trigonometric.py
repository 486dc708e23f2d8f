"""sin, cos and tan in float32.

The way from x to the result:

    x = n pi/2 + r,  |r| <= pi/4          in float64, pi/2 in three parts; good to |x| < 1e8
    n even: sin r = r + r^3 S(r^2)        S and C of degree 2, from `fit.py`
    n odd:  cos r = 1 - r^2/2 + r^4 C(r^2)
    bit 1 of n (of n + 1 for cos) is the sign
    tan x: tan r = r + r^3 T(r^2), T of degree 5; -1 / tan r where n is odd

Lanes beyond 1e8 send the whole vector to the C library, on a path laid out off the hot one.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value

_f = float.fromhex
_TWO_OVER_PI = _f("0x1.45f306dc9c883p-1")
#: pi/2: two parts of 26 bits, whose products with n are exact, and the rest
_HALF_PI = (_f("0x1.921fb5p+0"), _f("0x1.110b46p-26"), _f("0x1.1a62633145c07p-54"))
_ROUND = 1.5 * 2.0**52
_LIMIT = 1e8

SIN_S = (_f("-0x1.555546p-3"), _f("0x1.11075ep-7"), _f("-0x1.994e02p-13"))
COS_C = (_f("0x1.55554ap-5"), _f("-0x1.6c0c8ap-10"), _f("0x1.9a01bcp-16"))

TAN_T = (
    _f("0x1.5554dep-2"),
    _f("0x1.112dccp-3"),
    _f("0x1.b58910p-5"),
    _f("0x1.9055acp-6"),
    _f("0x1.9800dcp-9"),
    _f("0x1.33ae4cp-7"),
)


def sin(b: Body, x: Value) -> Value:
    """Sine of x in radians."""
    n, r = _reduce(b, x)
    far = b.absolute(x).gt(_LIMIT)
    result = _turned(b, n, _sin_part(b, r), _cos_part(b, r))
    return b.unless_any(far, b.select(x.eq(0.0), x, result), "sinf", x)


def cos(b: Body, x: Value) -> Value:
    """Cosine of x in radians."""
    n, r = _reduce(b, x)
    far = b.absolute(x).gt(_LIMIT)
    return b.unless_any(far, _turned(b, n + 1, _sin_part(b, r), _cos_part(b, r)), "cosf", x)


def tan(b: Body, x: Value) -> Value:
    """Tangent of x in radians."""
    n, r = _reduce(b, x)
    far = b.absolute(x).gt(_LIMIT)
    square = r * r
    tangent = b.fma(b.polynomial(square, TAN_T) * square, r, r)
    turned = b.select((n & 1).eq(0), tangent, b.constant(-1.0, "float") / tangent)
    return b.unless_any(far, b.select(x.eq(0.0), x, turned), "tanf", x)


def _reduce(b: Body, x: Value) -> tuple[Value, Value]:
    """n (its low bits) and r."""
    wide = b.convert("fpext", x, "double")
    shifted = b.fma(wide, _TWO_OVER_PI, _ROUND)
    n = shifted - _ROUND
    r = wide
    for part in _HALF_PI:
        r = b.fma(n, -part, r)
    return b.convert("trunc", b.bits(shifted), "i32"), b.convert("fptrunc", r, "float")


def _turned(b: Body, n: Value, sine: Value, cosine: Value) -> Value:
    """sin(n pi/2 + r) from sin r and cos r."""
    value = b.select((n & 1).eq(0), sine, cosine)
    return b.bits(b.bits(value) ^ ((n & 2) << 30))


def _sin_part(b: Body, r: Value) -> Value:
    square = r * r
    return b.fma(b.polynomial(square, SIN_S) * square, r, r)


def _cos_part(b: Body, r: Value) -> Value:
    square = r * r
    return b.fma(square * square, b.polynomial(square, COS_C), b.fma(square, -0.5, 1.0))
