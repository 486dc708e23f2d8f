"""log, log2 and log1p in float32 and in float64.

The way from x to the result:

    x = 2^e m,  sqrt(1/2) <= m < sqrt(2),  f = m - 1
    y = f^3 P(f) - f^2 / 2                       P of degree 8, from `fit.py`
    log x  = e ln 2 + (f + y)                    ln 2 in two parts
    log2 x = e + f + (y + (f + y) (log2(e) - 1))
    log1p x: f gets what was lost in 1 + x

A denormal is as many times 2^-149 as its bits say. They are looked at, and not compared as floats,
so that it counts also where a thread takes denormals for zero (of one below 0 the result is -inf
there, as of 0).

In float64, by s = f / (2 + f), for which log(1 + f) = log((1 + s) / (1 - s)) = 2s + s^3 S(s^2):

    log x   = e ln 2 + f - (f^2 / 2 - s (f^2 / 2 + s^2 S))       S of degree 6, from `fit.py`
    log2 x  = e + log(1 + f) log2(e)
    log1p x: what was lost in u = 1 + x, over u, is added
"""

from __future__ import annotations

import math

from mlcnb.codegen.llvm.math.build import Body, Value, factors

_f = float.fromhex
_LN2_HIGH = _f("0x1.62e4p-1")
_LN2_LOW = _f("0x1.7f7d1cp-20")
_LOG2E_LESS_1 = _f("0x1.c551dap-2")
_SQRT_HALF_BITS = 0x3F3504F3
_SMALLEST_NORMAL_BITS = 0x00800000
_INFINITY_BITS = 0x7F800000

LOG_P = factors("""
    0x1.555548p-2 -0x1.000006p-2 0x1.99a4b8p-3 -0x1.555c4ep-3 0x1.23373cp-3 -0x1.fc218ep-4
    0x1.e6f2aep-4 -0x1.de4046p-4 0x1.14579cp-4
""")


def log(b: Body, x: Value) -> Value:
    """Natural logarithm: -inf at 0, nan below."""
    e, f, _ = _split(b, x)
    return _special(b, x, _natural(b, e, f))


def log2(b: Body, x: Value) -> Value:
    """Logarithm to base 2, exact at powers of two."""
    e, f, _ = _split(b, x)
    y = _tail(b, f)
    fraction = f + b.fma(f + y, _LOG2E_LESS_1, y)
    return _special(b, x, e + fraction)


def log1p(b: Body, x: Value) -> Value:
    """log(1 + x), exact to the last bits near 0."""
    u = x + 1.0
    back = u - 1.0
    lost = (back - u + 1.0) + (x - back)
    e, f, shrink = _split(b, u)
    result = _natural(b, e, b.fma(lost, shrink, f))
    return b.select(x.eq(0.0), x, _special(b, u, result))


def _natural(b: Body, e: Value, f: Value) -> Value:
    y = b.fma(e, _LN2_LOW, _tail(b, f))
    return b.fma(e, _LN2_HIGH, f + y)


def _tail(b: Body, f: Value) -> Value:
    """log(1 + f) - f."""
    square = f * f
    return b.fma(square * f, b.polynomial(f, LOG_P), square * -0.5)


def _split(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """e as a float, f, and 2^-e (right for e from 0 to 126) for x = 2^e (1 + f)."""
    given = b.bits(x)
    denormal = given.lt(_SMALLEST_NORMAL_BITS)
    whole = b.bits(b.convert("sitofp", given, "float"))
    bits = b.select(denormal, whole, given)
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    m = b.bits(bits - (exponent << 23))
    e = b.convert("sitofp", exponent - b.select(denormal, 149, b.constant(0, "i32")), "float")
    held = b.select(exponent.gt(126), 126, exponent)
    shrink = b.bits(b.constant(0x3F800000, "i32") - (held << 23))
    return e, m - 1.0, shrink


def _special(b: Body, x: Value, result: Value) -> Value:
    """What logarithms give outside of 0 < x < inf, else `result`."""
    given = b.bits(x)
    ordinary = given.gt(0) & given.lt(_INFINITY_BITS)
    below = b.select(given.lt(0), math.nan, x)
    outside = b.select((given & 0x7FFFFFFF).eq(0), -math.inf, below)
    return b.select(ordinary, result, outside)


#: ln 2 in two parts; the first has 42 bits, so that its product with e is exact without FMA
_WIDE_LN2_HIGH = _f("0x1.62e42fefa3800p-1")
_WIDE_LN2_LOW = _f("0x1.ef35793c76730p-45")
_WIDE_LOG2E = _f("0x1.71547652b82fep+0")
_WIDE_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_WIDE_SMALLEST_NORMAL = 2.0**-1022
#: adding it to an integer as bits, and taking it away as a float, makes a float of the integer
_WIDE_WHOLE, _WIDE_WHOLE_BITS = 1.5 * 2.0**52, 0x4338000000000000

LOG_WIDE_S = factors("""
    0x1.5555555555592p-1 0x1.9999999980059p-2 0x1.24924941d5411p-2 0x1.c71c521ae26b6p-3
    0x1.74663c1b796d6p-3 0x1.39a1f29bcacabp-3 0x1.2f03b98318143p-3
""")


def log_wide(b: Body, x: Value) -> Value:
    """Natural logarithm: -inf at 0, nan below."""
    e, f = _split_wide(b, x)
    lower = _lower_wide(b, f, e * _WIDE_LN2_LOW)
    return _special_wide(b, x, b.fma(e, _WIDE_LN2_HIGH, f - lower))


def log2_wide(b: Body, x: Value) -> Value:
    """Logarithm to base 2, exact at powers of two."""
    e, f = _split_wide(b, x)
    found = f - _lower_wide(b, f, b.constant(0.0, "double"))
    return _special_wide(b, x, b.fma(found, _WIDE_LOG2E, e))


def log1p_wide(b: Body, x: Value) -> Value:
    """log(1 + x), exact to the last bits near 0."""
    u = x + 1.0
    back = u - 1.0
    lost = (back - u + 1.0) + (x - back)
    e, f = _split_wide(b, u)
    lower = _lower_wide(b, f, b.fma(e, _WIDE_LN2_LOW, lost / u))
    result = b.fma(e, _WIDE_LN2_HIGH, f - lower)
    return b.select(x.eq(0.0), x, _special_wide(b, u, result))


def _split_wide(b: Body, x: Value) -> tuple[Value, Value]:
    """e as a float, and f, for x = 2^e (1 + f)."""
    tiny = x.lt(_WIDE_SMALLEST_NORMAL)
    bits = b.bits(b.select(tiny, x * 2.0**54, x))
    exponent = (bits - _WIDE_SQRT_HALF_BITS) >> 52
    f = b.bits(bits - (exponent << 52)) - 1.0
    whole = exponent - b.select(tiny, 54, b.constant(0, "i64"))
    return b.bits(whole + _WIDE_WHOLE_BITS) - _WIDE_WHOLE, f


def _lower_wide(b: Body, f: Value, rest: Value) -> Value:
    """f - log(1 + f) - rest."""
    s = f / (f + 2.0)
    square, half = s * s, f * f * 0.5
    made = b.fma(square, b.polynomial(square, LOG_WIDE_S), half)
    return half - b.fma(s, made, rest)


def _special_wide(b: Body, x: Value, result: Value) -> Value:
    """What logarithms give outside of 0 < x < inf, else `result`."""
    below = b.select(x.lt(0.0), math.nan, x)
    outside = b.select(x.eq(0.0), -math.inf, below)
    return b.select(x.gt(0.0) & x.lt(math.inf), result, outside)
