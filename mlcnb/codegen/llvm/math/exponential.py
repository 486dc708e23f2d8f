"""exp, exp2, expm1, sigmoid and tanh in float32 and in float64.

The way from x to the result:

    x = n ln 2 + r,  |r| <= ln 2 / 2         n by adding and subtracting 1.5 * 2^23
    t = r + r^2 Q(r)  ~  e^r - 1             Q of degree 4 or 5, from `fit.py`
    e^x     = (1 + t) * 2^n                  in two factors, or by vscalefps: denormals round once;
                                             n added to the exponents where all lanes are normal
    e^x - 1 = t * 2^n + (2^n - 1)                         small results stay exact to the last bit

    sigmoid(x) = {1 or e^-|x|} / (1 + e^-|x|)
    tanh(x)    = e / (e + 2)  with e = e^(2|x|) - 1, and the sign of x

In float64 (`_wide`) Q is of degree 9 or 10, and n comes by 1.5 * 2^52.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value, factors

_f = float.fromhex
_LOG2E = _f("0x1.715476p+0")
#: ln 2 in two parts; the first has 16 bits, so that its product with n is exact without FMA
_LN2_HIGH = _f("0x1.62e4p-1")
_LN2_LOW = _f("0x1.7f7d1cp-20")
#: adding it leaves the nearest integer in the low bits of the sum
_ROUND = 1.5 * 2.0**23
_ROUND_BITS = 0x4B400000
#: 86.0, whose power and all nearer ones are normal: bits of larger ones, and of nan, are more
_NEAR_BITS = 0x42AC0000

EXP_Q = factors("""
    0x1.fffffcp-2 0x1.555492p-3 0x1.5558f2p-5 0x1.1239e2p-7 0x1.6a2434p-10
""")
EXPM1_Q = factors("""
    0x1.000000p-1 0x1.555554p-3 0x1.5554b2p-5 0x1.11118ap-7 0x1.6d71f8p-10 0x1.a032c0p-13
""")
#: also for r up to ln 2: there, 2^127 stands in for 2^128, which is no float32
EXPM1_TOP_Q = factors("""
    0x1.fffffep-2 0x1.55557ap-3 0x1.555760p-5 0x1.10e010p-7 0x1.6b2ae2p-10 0x1.e2e0f4p-13
""")
EXP2_Q = factors("""
    0x1.62e430p-1 0x1.ebfbdcp-3 0x1.c6aee8p-5 0x1.3b2d4cp-7 0x1.5f3e58p-10 0x1.41fbb8p-13
""")


def exp(b: Body, x: Value) -> Value:
    """e^x: inf above 88.7228, denormals below -87.3366, 0 below -103.973.

    Vectors without vscalefps whose lanes are all near 0 need no limits, and an addition to the
    exponent for the power of two.
    """

    def of(x: Value) -> tuple[Value, Value]:
        shifted, r = _reduce(b, x)
        return b.polynomial(r, (1.0, 1.0, *EXP_Q)), shifted

    def whole() -> Value:
        return _scale(b, *of(b.clamp(x, -104.0, 89.0)))

    def near() -> Value:
        p, shifted = of(x)
        return b.bits(b.bits(p) + (b.bits(shifted) << 23))

    if b.lanes == 1 or b.has_scalef:
        return whole()
    return b.either((b.bits(x) & 0x7FFFFFFF).gt(_NEAR_BITS), near, whole)


def exp2(b: Body, x: Value) -> Value:
    """2^x: inf from 128, denormals below -126, 0 below -150."""
    x = b.clamp(x, -151.0, 129.0)
    shifted = x + _ROUND
    r = x - (shifted - _ROUND)
    q = b.polynomial(r, EXP2_Q)
    return _scale(b, b.fma(r, q, 1.0), shifted)


def expm1(b: Body, x: Value) -> Value:
    """e^x - 1: exact to the last bits near 0, -1 far below, inf above 88.7228."""
    shifted, r = _reduce(b, b.clamp(x, -20.0, None), 127)
    power = _power_of_two(b, _integer(b, shifted))
    result = b.fma(_expm1_of(b, r, EXPM1_TOP_Q), power, power - 1.0)
    return b.select(x.eq(0.0), x, result)


def sigmoid(b: Body, x: Value) -> Value:
    """1 / (1 + e^-x), without overflow and with denormal tails."""
    negative = b.bits(b.bits(x) | -0x80000000)
    e = exp(b, negative)
    return b.select(x.lt(0.0), e, 1.0) / (e + 1.0)


def tanh(b: Body, x: Value) -> Value:
    """Hyperbolic tangent; +-1 beyond 9.011."""
    magnitude = b.clamp(b.absolute(x), None, 10.0)
    e = _expm1_small(b, magnitude + magnitude)
    return b.signed_like(e / (e + 2.0), x)


def _reduce(b: Body, x: Value, most: int | None = None) -> tuple[Value, Value]:
    """n, as its sum with _ROUND, and r with x = n ln 2 + r; n is no larger than `most`."""
    shifted = b.fma(x, _LOG2E, _ROUND)
    if most is not None:
        shifted = b.clamp(shifted, None, _ROUND + most)
    n = shifted - _ROUND
    return shifted, b.fma(n, -_LN2_LOW, b.fma(n, -_LN2_HIGH, x))


def _integer(b: Body, shifted: Value) -> Value:
    """The n of `_reduce` as an integer."""
    return b.bits(shifted) - _ROUND_BITS


def _expm1_of(b: Body, r: Value, q: tuple[float, ...]) -> Value:
    """e^r - 1 for the small r of `_reduce`."""
    return b.fma(b.polynomial(r, q) * r, r, r)


def _expm1_small(b: Body, x: Value) -> Value:
    """e^x - 1 for x between -87 and 87, with no care for the sign of zero."""
    shifted, r = _reduce(b, x)
    power = _power_of_two(b, _integer(b, shifted))
    return b.fma(_expm1_of(b, r, EXPM1_Q), power, power - 1.0)


def _power_of_two(b: Body, n: Value) -> Value:
    """2^n for -126 <= n <= 127, put together from bits."""
    return b.bits((n + 127) << 23)


def _scale(b: Body, p: Value, shifted: Value) -> Value:
    """p 2^n for -252 <= n <= 254, n as its sum with _ROUND."""
    if b.has_scalef:
        return b.scalef(p, shifted - _ROUND)
    n = _integer(b, shifted)
    half = n >> 1
    return p * _power_of_two(b, half) * _power_of_two(b, n - half)


_WIDE_LOG2E = _f("0x1.71547652b82fep+0")
#: ln 2 in two parts; the first has 42 bits, so that its product with n is exact without FMA
_WIDE_LN2_HIGH = _f("0x1.62e42fefa3800p-1")
_WIDE_LN2_LOW = _f("0x1.ef35793c76730p-45")
_WIDE_ROUND = 1.5 * 2.0**52
_WIDE_ROUND_BITS = 0x4338000000000000

EXP_WIDE_Q = factors("""
    0x1.000000000000ap-1 0x1.55555555554fap-3 0x1.5555555550873p-5 0x1.1111111127912p-7
    0x1.6c16c1842b7a0p-10 0x1.a01a012b383f1p-13 0x1.a0199a0a41bbep-16 0x1.71df23919beb5p-19
    0x1.28ad73ac8eb06p-22 0x1.ad81ee8efc7ccp-26
""")
EXPM1_WIDE_Q = factors("""
    0x1.0000000000000p-1 0x1.5555555555559p-3 0x1.5555555555545p-5 0x1.111111110f5d1p-7
    0x1.6c16c16c1d203p-10 0x1.a01a01b02f82ep-13 0x1.a01a01836b1d7p-16 0x1.71ddf7aa33050p-19
    0x1.27e5281c6fcdcp-22 0x1.af5fd50ac51e6p-26 0x1.1efc393e119afp-29
""")
EXP2_WIDE_Q = factors("""
    0x1.62e42fefa39efp-1 0x1.ebfbdff82c5a4p-3 0x1.c6b08d7049fe6p-5 0x1.3b2ab6fba00aep-7
    0x1.5d87fe78ce14bp-10 0x1.4309130ee996fp-13 0x1.ffcbfba5cbc55p-17 0x1.62bfc77d157f2p-20
    0x1.b526854d94c53p-24 0x1.e61b7a0acf3d9p-28 0x1.e78e454c687a6p-32
""")


def exp_wide(b: Body, x: Value) -> Value:
    """e^x: inf above 709.783, denormals below -708.397, 0 below -745.133."""
    n, r = _reduce_wide(b, b.clamp(x, -746.0, 710.0))
    return _scale_wide(b, b.polynomial(r, (1.0, 1.0, *EXP_WIDE_Q)), n)


def exp_within(b: Body, x: Value) -> Value:
    """e^x for x between -708 and 708."""
    n, r = _reduce_wide(b, x)
    return b.polynomial(r, (1.0, 1.0, *EXP_WIDE_Q)) * _power_of_two_wide(b, n)


def exp2_wide(b: Body, x: Value) -> Value:
    """2^x: inf from 1024, denormals below -1022, 0 below -1075."""
    x = b.clamp(x, -1076.0, 1025.0)
    shifted = x + _WIDE_ROUND
    r = x - (shifted - _WIDE_ROUND)
    n = b.bits(shifted) - _WIDE_ROUND_BITS
    return _scale_wide(b, b.fma(r, b.polynomial(r, EXP2_WIDE_Q), 1.0), n)


def expm1_wide(b: Body, x: Value) -> Value:
    """e^x - 1: exact to the last bits near 0, -1 far below, inf above 709.783."""
    n, r = _reduce_wide(b, b.clamp(x, -40.0, 710.0))
    top = n.gt(1023)  # 2^1024 is no float64
    power = _power_of_two_wide(b, b.select(top, 1023, n))
    less = b.select(top, 0.5, b.constant(1.0, "double"))
    result = b.fma(_expm1_of(b, r, EXPM1_WIDE_Q), power, power - less)
    return b.select(x.eq(0.0), x, b.select(top, result * 2.0, result))


def sigmoid_wide(b: Body, x: Value) -> Value:
    """1 / (1 + e^-x), without overflow and with denormal tails."""
    e = exp_wide(b, b.bits(b.bits(x) | -0x8000000000000000))
    return b.select(x.lt(0.0), e, 1.0) / (e + 1.0)


def tanh_wide(b: Body, x: Value) -> Value:
    """Hyperbolic tangent; +-1 beyond 19.062."""
    magnitude = b.clamp(b.absolute(x), None, 20.0)
    n, r = _reduce_wide(b, magnitude + magnitude)
    power = _power_of_two_wide(b, n)
    e = b.fma(_expm1_of(b, r, EXPM1_WIDE_Q), power, power - 1.0)
    return b.signed_like(e / (e + 2.0), x)


def _reduce_wide(b: Body, x: Value) -> tuple[Value, Value]:
    """The integer n, and r with x = n ln 2 + r."""
    shifted = b.fma(x, _WIDE_LOG2E, _WIDE_ROUND)
    n = shifted - _WIDE_ROUND
    r = b.fma(n, -_WIDE_LN2_LOW, b.fma(n, -_WIDE_LN2_HIGH, x))
    return b.bits(shifted) - _WIDE_ROUND_BITS, r


def _scale_wide(b: Body, p: Value, n: Value) -> Value:
    """p 2^n for -2044 <= n <= 2046."""
    half = n >> 1
    return p * _power_of_two_wide(b, half) * _power_of_two_wide(b, n - half)


def _power_of_two_wide(b: Body, n: Value) -> Value:
    """2^n for -1022 <= n <= 1023, put together from bits."""
    return b.bits((n + 1023) << 52)
