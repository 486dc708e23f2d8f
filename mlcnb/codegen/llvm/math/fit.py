"""Where the coefficients in this folder come from: `python -m mlcnb.codegen.llvm.math.fit`.

A polynomial is fitted so that the largest error of the *result*, relative to the result, is as
small as it can be. Weighted least squares in the Chebyshev basis on a dense grid; wherever the
error is large the weight is raised, over and over, which leads to the fit whose largest error is
smallest (Lawson's algorithm). All in 80-bit floats where the platform has them.

    name            what P(x) stands for                       error of the result per error of P
    EXP_Q           (e^r - 1 - r) / r^2                        r^2 / e^r
    EXPM1_Q         the same                                   r^2 / (e^r - 1)
    EXPM1_TOP_Q     the same, also for the r of 2^128          the same
    EXP_WIDE_Q, EXPM1_WIDE_Q                                   the same for float64
    EXP2_Q          (2^r - 1) / r                              r / 2^r
    LOG_P           (log(1+f) - f + f^2/2) / f^3               f^3 / log(1+f)
    LOG_WIDE_S      (log((1+s)/(1-s)) / s - 2) / s^2 over s^2  s^2 / (log((1+s)/(1-s)) / s)
    ERF_NEAR, ERF_NEAR_WIDE    erf x / x - 1 over x^2          x / erf x
    ERF_ROOT        (1 - erf x)^(1/4)                          4 P^3
    ERF_FAR_WIDE    -log(1 - erf x) / x over x - 3.5           x (1 - erf x) / erf x, 1e-6 at least
    POW_LOG2_T      log2((1+s)/(1-s)) / s over s^2             1 / itself
    SIN_S, COS_C    (sin r - r) / r^3, (cos r - 1 + r^2/2) / r^4 over r^2
    SIN_WIDE_S, COS_WIDE_C                                     the same for float64
    TAN_T           (tan r - r) / r^3 over r^2                 r^3 / tan r
    ATAN_A          (atan x - x) / x^3 over x^2                x^3 / atan x
    ASIN_A          (asin x - x) / x^3 over x^2                x^3 / asin x
    ATAN_WIDE_A, ASIN_WIDE_A, EXP2_WIDE_Q                      the same for float64
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from textwrap import fill, indent
from typing import Any

import numpy as np

Array = Any
Function = Callable[[Array], Array]
Real = np.longdouble


def fit(
    f: Function, weight: Function, low: float, high: float, degree: int, steps: int = 300
) -> tuple[list[float], float]:
    """Coefficients from the constant up, and the largest weighted error that remains."""
    nodes = np.cos(np.pi * (np.arange(2000, dtype=Real) + Real(0.5)) / 2000)
    x = (Real(low) + Real(high)) / 2 + (Real(high) - Real(low)) / 2 * nodes
    goal, w = f(x), np.abs(weight(x))
    basis = np.polynomial.chebyshev.chebvander(nodes, degree).astype(Real)
    trust = np.ones(len(x), Real)
    best: tuple[Array, float] = (None, math.inf)
    for _ in range(steps):
        scaled = basis * (trust * w * w)[:, None]
        solution = _solve(scaled.T @ basis, scaled.T @ goal)
        error = w * np.abs(basis @ solution - goal)
        if error.max() < best[1]:
            best = (solution, float(error.max()))
        trust = trust * error / (trust * error).sum()
    return _powers(best[0], low, high), best[1]


def _powers(chebyshev: Array, low: float, high: float) -> list[float]:
    """Chebyshev coefficients on [low, high] as coefficients of powers of x."""
    n = len(chebyshev)
    nodes = np.cos(np.pi * (np.arange(n, dtype=Real) + Real(0.5)) / n)
    x = (Real(low) + Real(high)) / 2 + (Real(high) - Real(low)) / 2 * nodes
    values = np.polynomial.chebyshev.chebvander(nodes, n - 1).astype(Real) @ chebyshev
    return list(_solve(np.stack([x**k for k in range(n)], 1), values))


def _solve(a: Array, b: Array) -> Array:
    """Gauss with pivots: NumPy's solver has no long doubles."""
    a, b = a.copy(), b.copy()
    n = len(b)
    for i in range(n):
        pivot = i + int(np.argmax(np.abs(a[i:, i])))
        a[[i, pivot]], b[[i, pivot]] = a[[pivot, i]], b[[pivot, i]]
        for j in range(i + 1, n):
            factor = a[j, i] / a[i, i]
            a[j, i:] -= factor * a[i, i:]
            b[j] -= factor * b[i]
    for i in reversed(range(n)):
        b[i] = (b[i] - a[i, i + 1 :] @ b[i + 1 :]) / a[i, i]
    return b


def _series(terms: Sequence[Any]) -> Function:
    """The power series with these coefficients."""

    def value(x: Array) -> Array:
        total = np.zeros_like(x)
        for term in reversed(terms):
            total = total * x + term
        return total

    return value


_LN2 = np.log(Real(2))
_PI = 4 * np.arctan(Real(1))
ERF_MIDDLE = 3.5
_FACTORIAL = [Real(math.factorial(k)) for k in range(26)]
_exp_q = _series([1 / f for f in _FACTORIAL[2:]])
_exp2_q = _series([_LN2**k / f for k, f in enumerate(_FACTORIAL) if k])
_log2_t = _series([2 / _LN2 / (2 * k + 1) for k in range(40)])
_log_s = _series([Real(2) / (2 * k + 3) for k in range(40)])
_sin_s = _series([Real(-1) ** k / _FACTORIAL[2 * k + 1] for k in range(1, 12)])
_cos_c = _series([Real(-1) ** k / _FACTORIAL[2 * k] for k in range(2, 12)])


def _log_p(f: Array) -> Array:
    near = np.abs(f) < 0.1
    series = _series([Real(-1) ** (k + 1) / k for k in range(3, 60)])(np.where(near, f, 0))
    safe = np.where(near, Real(1), f)
    return np.where(near, series, (np.log1p(safe) - safe + safe * safe / 2) / safe**3)


def erf_pair(x: Array) -> tuple[Array, Array]:
    """erf and 1 - erf: a series of terms above 0, and from 2 on a continued fraction."""
    term = total = 2 / np.sqrt(_PI) * np.exp(-x * x) * x
    for k in range(1, 250):
        term = term * 2 * x * x / (2 * k + 1)
        total = total + term
    far = np.maximum(x, 2)
    below = np.ones_like(x)
    for n in range(400, 0, -1):
        below = 1 + n / (2 * far * far) / below
    rest = np.exp(-far * far) / (far * np.sqrt(_PI) * below)
    return np.where(x < 2, total, 1 - rest), np.where(x < 2, 1 - total, rest)


def _erf_near(t: Array) -> Array:
    x = np.sqrt(t)
    return erf_pair(x)[0] / x - 1


def _erf_root(x: Array) -> Array:
    return np.sqrt(np.sqrt(erf_pair(x)[1]))


def _erf_far(u: Array) -> Array:
    x = u + Real(ERF_MIDDLE)
    return -np.log(erf_pair(x)[1]) / x


def _erf_far_weight(u: Array) -> Array:
    x = u + Real(ERF_MIDDLE)
    erf, erfc = erf_pair(x)
    return np.maximum(x * erfc / erf, Real(1e-6))


def _odd(f: Function, terms: Sequence[Any]) -> tuple[Function, Function]:
    """Of an odd function: (f(x) - x) / x^3 over t = x^2, by its series near 0, and its weight."""
    series = _series(terms)

    def tail(t: Array) -> Array:
        near = t < 0.01
        x = np.sqrt(np.where(near, Real(1), t))
        return np.where(near, series(np.where(near, t, 0)), (f(x) - x) / x**3)

    return tail, lambda t: t * np.sqrt(t) / f(np.sqrt(t))


_atan_a = _odd(np.arctan, [Real(-1) ** k / (2 * k + 1) for k in range(1, 14)])
_asin_a = _odd(
    np.arcsin, [Real(math.comb(2 * k, k)) / Real(4) ** k / (2 * k + 1) for k in range(1, 14)]
)
_tan_t = _odd(
    np.tan,
    [Real(a) / b for a, b in ((1, 3), (2, 15), (17, 315), (62, 2835), (1382, 155925),
                              (21844, 6081075), (929569, 638512875))],
)  # fmt: skip
_HALF_LN2 = float(_LN2) / 2 * 1.0001
_ROOT = (math.sqrt(0.5) - 1) * 1.0001, (math.sqrt(2) - 1) * 1.0001
_EIGHTH_TURN = (math.pi / 4 * 1.0002) ** 2

#: name: (function, weight, low, high, degree, whether the code computes in float64)
FITS: dict[str, tuple[Function, Function, float, float, int, bool]] = {
    "EXP_Q": (_exp_q, lambda r: r * r * np.exp(-r), -_HALF_LN2, _HALF_LN2, 4, False),
    "EXPM1_Q": (_exp_q, lambda r: r * r / np.expm1(r), -_HALF_LN2, _HALF_LN2, 5, False),
    "EXPM1_TOP_Q": (_exp_q, lambda r: r * r / np.expm1(r), -_HALF_LN2, 2 * _HALF_LN2, 5, False),
    "EXP_WIDE_Q": (_exp_q, lambda r: r * r * np.exp(-r), -_HALF_LN2, _HALF_LN2, 9, True),
    "EXPM1_WIDE_Q": (_exp_q, lambda r: r * r / np.expm1(r), -_HALF_LN2, _HALF_LN2, 10, True),
    "EXP2_Q": (_exp2_q, lambda r: r * np.exp2(-r), -0.50001, 0.50001, 5, False),
    "LOG_P": (_log_p, lambda f: f**3 / np.log1p(f), *_ROOT, 8, False),
    "LOG_WIDE_S": (_log_s, lambda t: t / (2 + t * _log_s(t)), 0.0, 0.02945, 6, True),
    "EXP2_WIDE_Q": (_exp2_q, lambda r: r * np.exp2(-r), -0.50001, 0.50001, 10, True),
    "ERF_NEAR": (_erf_near, lambda t: 1 / (1 + _erf_near(t)), 1e-9, 1.44, 6, False),
    "ERF_ROOT": (_erf_root, lambda x: 4 * _erf_root(x) ** 3, 1.2, 4.0, 7, False),
    "ERF_NEAR_WIDE": (_erf_near, lambda t: 1 / (1 + _erf_near(t)), 1e-9, 1.44, 12, True),
    "ERF_FAR_WIDE": (_erf_far, _erf_far_weight, -2.3, 2.45, 19, True),
    "POW_LOG2_T": (_log2_t, lambda t: 1 / _log2_t(t), 0.0, 0.02945, 5, True),
    "POW_EXP2_Q": (_exp2_q, lambda r: r * np.exp2(-r), -0.50001, 0.50001, 6, True),
    "SIN_S": (_sin_s, lambda t: t, 0.0, _EIGHTH_TURN, 2, False),
    "COS_C": (_cos_c, lambda t: t * t, 0.0, _EIGHTH_TURN, 2, False),
    "SIN_WIDE_S": (_sin_s, lambda t: t, 0.0, _EIGHTH_TURN, 5, True),
    "COS_WIDE_C": (_cos_c, lambda t: t * t, 0.0, _EIGHTH_TURN, 5, True),
    "TAN_T": (*_tan_t, 0.0, _EIGHTH_TURN, 5, False),
    "ATAN_A": (*_atan_a, 0.0, 1.0, 8, False),
    "ASIN_A": (*_asin_a, 0.0, 0.2501, 4, False),
    "ATAN_WIDE_A": (*_atan_a, 0.0, 1.0, 19, True),
    "ASIN_WIDE_A": (*_asin_a, 0.0, 0.2501, 11, True),
}


def main() -> None:
    """Print every table as it stands in the code."""
    for name, (f, weight, low, high, degree, wide) in FITS.items():
        coefficients, error = fit(f, weight, low, high, degree)
        print(f"{name}  # largest relative error {error:.1e}")
        found = " ".join(float(c if wide else np.float32(c)).hex() for c in coefficients)
        print(indent(fill(found, 92, break_on_hyphens=False), "    "))


if __name__ == "__main__":
    main()
