"""PyTorch spellings of special functions: lgamma, digamma, erfc, erfinv, ndtri; signs: copysign,
signbit.

They are computed in float64, which leaves float32 its last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlcnb.op._torch import Formula, torch_formula
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

#: Lanczos's approximation of the gamma function, g = 7:
#: https://en.wikipedia.org/wiki/Lanczos_approximation
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip
#: M. Giles, Approximating the erfinv function (2011): single precision, near 0 and near 1
_NEAR_0 = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_NEAR_1 = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
#: x -> log(x) - 1 / 2x - the sum of these, in powers of 1 / x^2
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


#: erfc: where 1 - erf(x) still has eleven digits and the fraction, of so many terms, all of them
_FAR, _TERMS = 3.0, 16


def _polynomial(f: Formula, x: Expr, factors: Sequence[float]) -> Expr:
    """The first factor belongs to the highest power."""
    found = f.multiply(x, factors[0])
    for factor in factors[1:-1]:
        found = f.multiply(f.add(found, factor), x)
    return f.add(found, factors[-1])


@torch_formula("aten.lgamma", "aten.special_gammaln", kind="float64")
def torch_lgamma(f: Formula, x: Expr) -> Expr:
    """log |gamma(x)|; of x below 0.5 by gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    low = f.less(x, 0.5)
    z = f.subtract(f.where(low, f.subtract(1.0, x), x), 1.0)
    total = f.add(f.multiply(z, 0.0), _LANCZOS[0])
    for i, factor in enumerate(_LANCZOS[1:], 1):
        total = f.add(total, f.divide(factor, f.add(z, float(i))))
    t = f.add(z, 7.5)
    power = f.subtract(f.multiply(f.add(z, 0.5), f.log(t)), t)
    found = f.add(f.add(power, math.log(2 * math.pi) / 2), f.log(total))
    turn = f.abs(f.sin(f.multiply(f.subtract(x, f.round(x)), math.pi)))
    mirrored = f.subtract(math.log(math.pi), f.add(f.log(turn), found))
    found = f.where(low, mirrored, found)
    pole = f.logical_and(f.less_equal(x, 0.0), f.equal(x, f.floor(x)))
    return f.where(f.logical_or(pole, f.isinf(x)), math.inf, found)


@torch_formula("aten.digamma", "aten.special_digamma", kind="float64")
def torch_digamma(f: Formula, x: Expr) -> Expr:
    """The derivative of lgamma, by a series for large x: psi(x) = psi(x + 1) - 1 / x."""
    low = f.less(x, 0.5)
    z = f.where(low, f.subtract(1.0, x), x)
    less = f.multiply(z, 0.0)
    for _ in range(8):
        less, z = f.add(less, f.divide(1.0, z)), f.add(z, 1.0)
    square = f.divide(1.0, f.multiply(z, z))
    series = f.multiply(_polynomial(f, square, _DIGAMMA[::-1]), square)
    found = f.subtract(f.subtract(f.log(z), f.divide(0.5, z)), f.add(series, less))
    turn = f.multiply(f.subtract(x, f.round(x)), math.pi)
    found = f.where(low, f.subtract(found, f.divide(math.pi, f.tan(turn))), found)
    pole = f.logical_and(f.less(x, 0.0), f.equal(x, f.floor(x)))
    found = f.where(pole, math.nan, f.where(f.equal(x, math.inf), math.inf, found))
    at_0 = f.where(_is_negative(f, x), math.inf, -math.inf)
    return f.where(f.equal(x, 0.0), at_0, found)


@torch_formula("aten.erfc", "aten.special_erfc", kind="float64")
def torch_erfc(f: Formula, x: Expr) -> Expr:
    """1 - erf(x); where little of that is left by a continued fraction."""
    far = f.minimum(f.maximum(x, _FAR), 30.0)  # of 28 and more it is 0
    tail = f.multiply(f.exp(f.negative(f.multiply(far, far))), _scaled_tail(f, far))
    return f.where(f.greater_equal(x, _FAR), tail, f.subtract(1.0, f.erf(x)))


@torch_formula("prims.erfcx", "aten.special_erfcx", kind="float64")
def torch_erfcx(f: Formula, x: Expr) -> Expr:
    """exp(x^2) erfc(x)."""
    near = f.multiply(f.exp(f.multiply(x, x)), f.subtract(1.0, f.erf(x)))
    return f.where(f.greater_equal(x, _FAR), _scaled_tail(f, f.maximum(x, _FAR)), near)


def _scaled_tail(f: Formula, x: Expr) -> Expr:
    """Laplace's exp(x^2) erfc(x) = 1 / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / …)))."""
    below = x
    for term in range(_TERMS, 0, -1):
        below = f.add(x, f.divide(term / 2, below))
    return f.divide(1 / math.sqrt(math.pi), below)


@torch_formula("aten.erfinv", "aten.special_erfinv", kind="float64")
def torch_erfinv(f: Formula, x: Expr) -> Expr:
    """y of erf(y) = x; NaN outside of -1 to 1."""
    return _erfinv(f, x)


@torch_formula("aten.special_ndtri", kind="float64")
def torch_ndtri(f: Formula, x: Expr) -> Expr:
    """The place below which a part x of the normal distribution lies."""
    found = _erfinv(f, f.subtract(f.multiply(x, 2.0), 1.0))
    return f.multiply(found, math.sqrt(2))


def _erfinv(f: Formula, x: Expr) -> Expr:
    """Giles's polynomial, made exact by two steps of Newton's method; of 1 infinity."""
    w = f.negative(f.log(f.multiply(f.subtract(1.0, x), f.add(x, 1.0))))
    near_0 = _polynomial(f, f.subtract(w, 2.5), _NEAR_0)
    near_1 = _polynomial(f, f.subtract(f.sqrt(f.maximum(w, 5.0)), 3.0), _NEAR_1)
    found = f.multiply(f.where(f.less(w, 5.0), near_0, near_1), x)
    for _ in range(2):
        slope = f.multiply(f.exp(f.negative(f.multiply(found, found))), 2 / math.sqrt(math.pi))
        found = f.subtract(found, f.divide(f.subtract(f.erf(found), x), slope))
    ends = f.equal(f.abs(x), 1.0)
    return f.where(ends, f.multiply(x, math.inf), found)


def _is_negative(f: Formula, x: Expr) -> Expr:
    """Below 0, or -0.0."""
    below = f.less(x, 0.0)
    return f.logical_or(below, f.logical_and(f.equal(x, 0.0), f.less(f.divide(1.0, x), 0.0)))


@torch_spelling("aten.signbit")
def torch_signbit(n: TorchNode, x: Expr) -> Expr:
    """Below 0, or -0.0; the sign of NaN counts as none."""
    kind = n.dtype(x)
    f = Formula(n, kind)
    return _is_negative(f, x) if "float" in kind else f.less(n.tensor(x, kind), 0)


@torch_spelling("aten.copysign")
def torch_copysign(n: TorchNode, x: Expr, other: Expr) -> Expr:
    """|x| with the sign of another; that of NaN counts as none."""
    kind = n.result()[1]
    f = Formula(n, kind)
    size = f.abs(n.tensor(x, kind))
    return f.where(_is_negative(f, n.tensor(other, kind)), f.negative(size), size)
