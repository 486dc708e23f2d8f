"""pow in float32, computed in float64 lanes so that large exponents cost no accuracy.

The way from x to the result:

    s = (m - 1) / (m + 1),  log2 |x| = e + s T(s^2)             T of degree 5, from `fit.py`
    z = y log2 |x| = n + r,  2^z = (1 + r Q(r)) 2^n             Q of degree 6
    then the sign for odd integers y, nan for x < 0 and other y, and C's list of special cases
"""

from __future__ import annotations

import math

from mlcnb.codegen.llvm.math.build import Body, Value, factors

_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ROUND = 1.5 * 2.0**52
_ROUND_BITS = 0x4338000000000000

POW_LOG2_T = factors("""
    0x1.71547652b8251p+1 0x1.ec709dc53d1aep-1 0x1.2776c2926074fp-1 0x1.a61a2f8614c91p-2
    0x1.4795361e7233ep-2 0x1.21b2ce89839dep-2
""")
POW_EXP2_Q = factors("""
    0x1.62e42ff0e19f5p-1 0x1.ebfbe0778b195p-3 0x1.c6b08ac056224p-5 0x1.3b29f3994614cp-7
    0x1.5d8a860c88647p-10 0x1.445c8782e1cbdp-13 0x1.fde5f86d4019dp-17
""")


def power(b: Body, x: Value, y: Value) -> Value:
    """x^y as C's `powf` defines it, special cases included."""
    size = b.absolute(x)
    z = _log2(b, b.convert("fpext", size, "double")) * b.convert("fpext", y, "double")
    magnitude = b.convert("fptrunc", _exp2(b, z), "float")
    whole, odd = _integer(b, y)
    signed = b.select(_sign_bit(b, x) & odd, b.bits(b.bits(magnitude) ^ -0x80000000), magnitude)
    no_root = x.lt(0.0) & x.gt(-math.inf) & (whole ^ 1)
    result = b.select(no_root, math.nan, signed)
    infinite_of_minus_one = x.eq(-1.0) & b.absolute(y).eq(math.inf)
    is_one = x.eq(1.0) | y.eq(0.0) | infinite_of_minus_one
    return b.select(is_one, 1.0, result)


def _log2(b: Body, x: Value) -> Value:
    """log2 of x >= 0 in float64, to 2^-45; denormals of float32 are normal here."""
    bits = b.bits(x)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    m = b.bits(bits - (exponent << 52))
    s = (m - 1.0) / (m + 1.0)
    # the exponent has few bits: as 32-bit integers it converts in one instruction
    e = b.convert("sitofp", b.convert("trunc", exponent, "i32"), "double")
    result = b.fma(s, b.polynomial(s * s, POW_LOG2_T), e)
    finite = b.select(x.lt(math.inf), result, x)
    return b.select(x.eq(0.0), -math.inf, finite)


def _exp2(b: Body, z: Value) -> Value:
    """2^z in float64, to 2^-34, held within what overflows or vanishes in float32."""
    z = b.clamp(z, -300.0, 300.0)
    shifted = z + _ROUND
    r = z - (shifted - _ROUND)
    scale = b.bits((b.bits(shifted) - (_ROUND_BITS - 1023)) << 52)
    return b.fma(r, b.polynomial(r, POW_EXP2_Q), 1.0) * scale


def _integer(b: Body, y: Value) -> tuple[Value, Value]:
    """(y is an integer, y is an odd integer); from 2^24 on all are even."""
    large = (b.absolute(y).lt(2.0**24)) ^ 1
    small = b.select(large, 0.0, y)
    number = b.convert("fptosi", small, "i32")
    whole = b.convert("sitofp", number, "float").eq(small)
    odd = (number & 1).eq(1)
    return whole, whole & odd


def _sign_bit(b: Body, x: Value) -> Value:
    return b.bits(x).lt(0)
