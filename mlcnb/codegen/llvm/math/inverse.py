"""atan, asin and acos in float32 and in float64.

The way from x to the result:

    atan x = t + t^3 A(t^2)                  t = |x| up to 1, else 1 / |x| and pi/2 less the result
    asin x = x + x^3 S(x^2)                  |x| up to 1/2
           = pi/2 - 2 asin sqrt((1 - |x|) / 2)      above; acos x = pi/2 - asin x, without the loss
                                             near 1, where it is twice that angle itself

A of degree 8 and S of degree 4, in float64 of 19 and 11, from `fit.py`; pi/2 and pi in two parts;
the sign of x at the end.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value, factors

_f = float.fromhex
#: pi/2 in two parts
_HALF_PI = {
    "float": (_f("0x1.921fb6p+0"), _f("-0x1.777a5cp-25")),
    "double": (_f("0x1.921fb54442d18p+0"), _f("0x1.1a62633145c07p-54")),
}

ATAN_A = factors("""
    -0x1.55553ep-2 0x1.9991fep-3 -0x1.2421b6p-3 0x1.c099fep-4 -0x1.583490p-4 0x1.dac9e2p-5
    -0x1.fed15ep-6 0x1.65a65ap-7 -0x1.d62fecp-10
""")
ASIN_A = factors("""
    0x1.5555c8p-3 0x1.3301ccp-4 0x1.7480e0p-5 0x1.8c0cb6p-6 0x1.598628p-5
""")
ATAN_WIDE_A = factors("""
    -0x1.5555555555526p-2 0x1.999999999541ep-3 -0x1.2492492377eeep-3 0x1.c71c717df3a81p-4
    -0x1.745d118c9cf73p-4 0x1.3b13650dabb00p-4 -0x1.110e4499ebc20p-4 0x1.e1bb1317dcd39p-5
    -0x1.ae5bed0400f00p-5 0x1.82d26a56a97f7p-5 -0x1.598e41935a155p-5 0x1.2c02bdca65993p-5
    -0x1.e971b3bfea028p-6 0x1.679777bd15f66p-6 -0x1.c65c21dcff619p-7 0x1.d60a480b32561p-8
    -0x1.78827f1bbc164p-9 0x1.b194487d5c374p-11 -0x1.3d267850742dep-13 0x1.b8a69fe92f616p-17
""")
ASIN_WIDE_A = factors("""
    0x1.5555555555391p-3 0x1.333333336e776p-4 0x1.6db6db4275ff8p-5 0x1.f1c72c3cfeefdp-6
    0x1.6e89f3adf4c33p-6 0x1.1c6beca611b62p-6 0x1.c6fcc10aa4f8bp-7 0x1.8eca6e057c316p-7
    0x1.ab8880ba9e612p-8 0x1.402910c1c1c51p-6 -0x1.0a2aea015ae25p-6 0x1.058d386cd0f85p-5
""")
_ATAN = {"float": ATAN_A, "double": ATAN_WIDE_A}
_ASIN = {"float": ASIN_A, "double": ASIN_WIDE_A}


def atan(b: Body, x: Value) -> Value:
    """Inverse tangent; +-pi/2 at infinity."""
    magnitude = b.absolute(x)
    far = magnitude.gt(1.0)
    t = b.select(far, b.constant(1.0, x.kind) / magnitude, magnitude)
    square = t * t
    near = b.fma(b.polynomial(square, _ATAN[x.kind]) * square, t, t)
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
    high, low = _HALF_PI[x.kind]
    turn = b.select(negative, 2.0 * high, b.constant(0.0, x.kind))
    rest = b.select(negative, 2.0 * low, b.constant(0.0, x.kind))
    steep = turn + (b.fma(signed, 2.0, rest))
    return b.select(far, steep, _less(b, signed))


def _angle(b: Body, magnitude: Value) -> tuple[Value, Value]:
    """Whether |x| is above 1/2, and asin |x|, there of sqrt((1 - |x|) / 2)."""
    far = magnitude.gt(0.5)
    square = b.select(far, b.fma(magnitude, -0.5, 0.5), magnitude * magnitude)
    root = b.select(far, b.root(square), magnitude)
    return far, b.fma(b.polynomial(square, _ASIN[square.kind]) * square, root, root)


def _less(b: Body, angle: Value) -> Value:
    """pi/2 - angle."""
    high, low = _HALF_PI[angle.kind]
    return b.constant(high, angle.kind) - (angle - low)
