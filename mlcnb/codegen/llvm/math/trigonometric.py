"""sin, cos and tan in float32 and in float64.

The way from x to the result:

    x = n pi/2 + r,  |r| <= pi/4          in float64, pi/2 in three parts; good to |x| < 1e8
    n even: sin r = r + r^3 S(r^2)        S and C of degree 2, from `fit.py`
    n odd:  cos r = 1 - r^2/2 + r^4 C(r^2)
    bit 1 of n (of n + 1 for cos) is the sign
    tan x: tan r = r + r^3 T(r^2), T of degree 5; -1 / tan r where n is odd

In float64 r is a sum of two floats, pi/2 has four parts, S and C are of degree 5, and tan x is a
quotient. Lanes beyond 1e8, in float64 beyond 1e6, send the whole vector to the C library, on a path
laid out off the hot one.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value, factors

_f = float.fromhex
_TWO_OVER_PI = _f("0x1.45f306dc9c883p-1")
#: pi/2: two parts of 26 bits, whose products with n are exact, and the rest
_HALF_PI = (_f("0x1.921fb5p+0"), _f("0x1.110b46p-26"), _f("0x1.1a62633145c07p-54"))
_ROUND = 1.5 * 2.0**52
_LIMIT = 1e8

SIN_S = (_f("-0x1.555546p-3"), _f("0x1.11075ep-7"), _f("-0x1.994e02p-13"))
COS_C = (_f("0x1.55554ap-5"), _f("-0x1.6c0c8ap-10"), _f("0x1.9a01bcp-16"))

TAN_T = factors("""
    0x1.5554dep-2 0x1.112dccp-3 0x1.b58910p-5 0x1.9055acp-6 0x1.9800dcp-9 0x1.33ae4cp-7
""")


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


_WIDE_ROUND_BITS = 0x4338000000000000
#: pi/2: three parts of 33 bits, whose products with n below 2^20 are exact, and the rest
_WIDE_HALF_PI = factors("""
    0x1.921fb544p+0 0x1.0b4611a6p-34 0x1.3198a2e0p-69 0x1.b839a252049c1p-104
""")
_WIDE_LIMIT = 1e6

SIN_WIDE_S = factors("""
    -0x1.5555555555549p-3 0x1.111111110f850p-7 -0x1.a01a019c0dbc8p-13 0x1.71de3575039dap-19
    -0x1.ae5e646ce7ab1p-26 0x1.5d928ac4c07ebp-33
""")
COS_WIDE_C = factors("""
    0x1.555555555554bp-5 -0x1.6c16c16c15125p-10 0x1.a01a019ca7e8bp-16 -0x1.27e4f801682a9p-22
    0x1.1ee9e4faf1653p-29 -0x1.8faa6cde5da88p-37
""")


def sin_wide(b: Body, x: Value) -> Value:
    """Sine of x in radians."""
    n, sine, cosine = _parts_wide(b, x)
    return _or_library(b, b.select(x.eq(0.0), x, _turned_wide(b, n, sine, cosine)), "sin", x)


def cos_wide(b: Body, x: Value) -> Value:
    """Cosine of x in radians."""
    n, sine, cosine = _parts_wide(b, x)
    return _or_library(b, _turned_wide(b, n + 1, sine, cosine), "cos", x)


def tan_wide(b: Body, x: Value) -> Value:
    """Tangent of x in radians."""
    n, sine, cosine = _parts_wide(b, x)
    even = (n & 1).eq(0)
    turned = b.select(even, sine, cosine * -1.0) / b.select(even, cosine, sine)
    return _or_library(b, b.select(x.eq(0.0), x, turned), "tan", x)


def _or_library(b: Body, result: Value, name: str, x: Value) -> Value:
    return b.unless_any(b.absolute(x).gt(_WIDE_LIMIT), result, name, x)


def _turned_wide(b: Body, n: Value, sine: Value, cosine: Value) -> Value:
    """sin(n pi/2 + r) from sin r and cos r."""
    value = b.select((n & 1).eq(0), sine, cosine)
    return b.bits(b.bits(value) ^ ((n & 2) << 62))


def _parts_wide(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """n, and sin and cos of r + rest, where x = n pi/2 + r + rest."""
    shifted = b.fma(x, _TWO_OVER_PI, _ROUND)
    n = shifted - _ROUND
    first, second, third, last = _WIDE_HALF_PI
    r, lost = _difference(b, b.fma(n, -first, x), n * second)
    r, more = _difference(b, r, n * third)
    rest = b.fma(n, -last, lost + more)
    square = r * r
    sine = b.fma(b.polynomial(square, SIN_WIDE_S), square * r, rest * b.fma(square, -0.5, 1.0))
    half = square * 0.5
    near = b.constant(1.0, "double") - half
    lower = (b.constant(1.0, "double") - near) - half
    tail = b.fma(square * square, b.polynomial(square, COS_WIDE_C), r * rest * -1.0)
    return b.bits(shifted) - _WIDE_ROUND_BITS, r + sine, near + (lower + tail)


def _difference(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x - y as a float and what it lacks (Knuth's)."""
    found = x - y
    taken = x - found
    return found, (x - (found + taken)) + (taken - y)
