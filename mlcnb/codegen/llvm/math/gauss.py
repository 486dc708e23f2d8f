"""erf, Gauss's error function, in float32 and in float64.

The way from x to the result:

    |x| < 1.2: erf x = x + x N(x^2)          N of degree 6, in float64 of 12, from `fit.py`
    above:     erf x = 1 - R(|x|)^4          R of degree 7; from 3.92 on it is 1
               in float64 1 - e^(-|x| F(|x| - 3.5)), F of degree 19; from 5.92 on it is 1
    then the sign of x

Both are computed for all lanes and one is taken. What is small where x is large is taken from 1, so
that its errors count little.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.math.build import Body, Value, factors
from mlcnb.codegen.llvm.math.exponential import exp_within

_BETWEEN = 1.2
_END, _END_WIDE = 4.0, 5.93
_MIDDLE = 3.5

ERF_NEAR = factors("""
    0x1.06eba6p-3 -0x1.812702p-2 0x1.ce2388p-4 -0x1.b76bf4p-6 0x1.50487cp-8 -0x1.8c7a06p-11
    0x1.11c760p-14
""")
ERF_ROOT = factors("""
    0x1.01a526p+0 -0x1.3fe168p-2 -0x1.d77542p-5 -0x1.c86718p-5 0x1.1a14b6p-4 -0x1.79d4e0p-6
    0x1.ba980ap-9 -0x1.8d8aa4p-13
""")
ERF_NEAR_WIDE = factors("""
    0x1.06eba8214db68p-3 -0x1.812746b0379abp-2 0x1.ce2f21a04081ep-4 -0x1.b82ce31202429p-6
    0x1.565bccfdf06dap-8 -0x1.c02db196c49b0p-11 0x1.f9a2ecbbf8eb6p-14 -0x1.f4cea9eaefdf9p-17
    0x1.b9bd745f1911dp-20 -0x1.5e345ec85f609p-23 0x1.ef8c476baf813p-27 -0x1.2389ac2389951p-30
    0x1.abc1c5eaeeab0p-35
""")
ERF_FAR_WIDE = factors("""
    0x1.020e55e613060p+2 0x1.d91593d094895p-1 0x1.90558efc9fc4fp-7 -0x1.05d41157d8911p-9
    0x1.50b6d7c1acfe1p-12 -0x1.a098ee7c2f9a8p-15 0x1.e4a1fcc116ca5p-18 -0x1.ff1f64ac0b748p-21
    0x1.c1f023345fb3cp-24 -0x1.d5cacca32f3dcp-28 -0x1.b412c1d109135p-31 0x1.d4d4c76baedddp-32
    -0x1.ea64c5b8fe51cp-34 0x1.035c0e9729e05p-35 -0x1.812ad9d2a72adp-38 -0x1.794e0919dd6abp-44
    -0x1.9150c5ab6118dp-45 0x1.8414d489b13d3p-44 0x1.062c43cd8279fp-49 -0x1.1be4e2bf6eecap-48
""")


def erf(b: Body, x: Value) -> Value:
    """Gauss's error function; +-1 beyond 3.92."""
    magnitude = b.absolute(x)
    root = b.polynomial(b.clamp(magnitude, None, _END), ERF_ROOT)
    square = root * root
    return _chosen(b, x, magnitude, ERF_NEAR, b.fma(square * -1.0, square, 1.0))


def erf_wide(b: Body, x: Value) -> Value:
    """Gauss's error function; +-1 beyond 5.92."""
    magnitude = b.absolute(x)
    held = b.clamp(magnitude, 1.0, _END_WIDE)
    exponent = held * b.polynomial(held - _MIDDLE, ERF_FAR_WIDE)
    far = b.constant(1.0, "double") - exp_within(b, exponent * -1.0)
    return _chosen(b, x, magnitude, ERF_NEAR_WIDE, far)


def _chosen(b: Body, x: Value, magnitude: Value, near: tuple[float, ...], far: Value) -> Value:
    """The polynomial of the near ones, or what was found for far ones; nan is near."""
    held = b.select(magnitude.gt(_BETWEEN), 0.0, magnitude)
    small = b.fma(b.polynomial(held * held, near), held, held)
    return b.signed_like(b.select(magnitude.gt(_BETWEEN), far, small), x)
