"""The matrices of Winograd's minimal filtering, and products with them written out.

    F(m, r): m results of a window of r from alpha = m + r - 1 inputs, by alpha multiplications

    y = A^T [ (G g) * (B^T d) ]          g: r weights, d: alpha inputs, y: m results

They come from evaluating polynomials at alpha - 1 points and at infinity (Toom, Cook). The points
come in pairs p, -p, whose rows share their even and their odd part, so a product costs half. Which
points are taken decides the error: measured beside float64 on 64 channels of random numbers, as a
part of the largest result (a convolution that is computed directly: 1e-6),

    F(2, 3)  0  1  -1                          4e-7
    F(4, 3)  0  5/8  -5/8  3/2  -3/2           1.5e-6      (0, +-1, +-2, which is usual: 9e-6)
    F(6, 3)  0  1  -1  2  -2  1/2  -1/2        1e-5

Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016; Barabasz et al.,
Error Analysis and Improving the Accuracy of Winograd Convolution, TOMS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.ir.expr import Select
from mlcnb.ir.prim_ops import const

#: alpha -> the finite points: 0, then pairs
POINTS = {
    2: (Fraction(0),),
    4: (Fraction(0), Fraction(1), Fraction(-1)),
    6: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
    8: tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))),
}


class Matrices(NamedTuple):
    """a: (m, alpha), which is A^T; g: (alpha, r); b: (alpha, alpha), which is B^T. In float64."""

    a: np.ndarray
    g: np.ndarray
    b: np.ndarray


@cache
def matrices(tile: int, window: int) -> Matrices:
    """Of F(tile, window).

    Raises:
        MLCError: no points are listed for tile + window - 1.
    """
    alpha = tile + window - 1
    points = POINTS.get(alpha)
    if points is None or tile < 1 or window < 1:
        sums = ", ".join(map(str, POINTS))
        raise MLCError(f"no F({tile}, {window}) here: tile + window - 1 must be one of {sums}")
    a = [[p**i for p in points] + [Fraction(i == tile - 1)] for i in range(tile)]
    g, b = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = _value(_with_roots(others), p)
        g.append([p**k / scale for k in range(window)])
        b.append([*_with_roots(others), Fraction(0)])
    g.append([Fraction(k == window - 1) for k in range(window)])
    b.append(_with_roots(points))
    return Matrices(*(np.array(m, "float64") for m in (a, g, b)))


def error_factors(weight: np.ndarray, tile: int) -> np.ndarray:
    """For each output channel of `weight` (O, I, r, r) the M of the bound of F(tile, r)'s error.

    M = max of |A^T| [ (|G| P |G^T|) * b b^T ] |A|,  P = sum of |g| over the input channels,
    b = |B^T| 1: a result is a sum of terms that are together no larger than M times the largest
    input, and each rounding adds at most 2^-24 of that. Of direct loops the same is P's sum.
    """
    a, g, b = (np.abs(m) for m in matrices(tile, weight.shape[2]))
    reach = b.sum(1)
    inside = (g @ sizes_of(weight) @ g.T) * np.outer(reach, reach)
    return (a @ inside @ a.T).max((1, 2), initial=0.0)


def sizes_of(weight: np.ndarray) -> np.ndarray:
    """(O, r, r) in float64: the sum of |weight| over the input channels."""
    outer, inner, rows, columns = weight.shape
    with np.errstate(over="ignore", invalid="ignore"):
        lines = np.abs(weight).reshape(outer, inner, rows * columns)
        summed = np.ones((1, inner), lines.dtype) @ lines
    return summed.reshape(outer, rows, columns).astype(np.float64)


def error_growth(weight: np.ndarray, tile: int) -> float:
    """How many times larger the bound is than that of direct loops, of the worst output channel;
    nan where a weight is none, or infinite.
    """
    with np.errstate(invalid="ignore"):
        direct, factors = sizes_of(weight).sum((1, 2)), error_factors(weight, tile)
        ratios = factors / np.where(direct == 0, 1, direct)
    return float(ratios.max(initial=0.0))


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), from the lowest."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [s - root * f for s, f in zip(shifted, [*found, Fraction(0)], strict=True)]
    return found


def _value(coefficients: Sequence[Fraction], x: Fraction) -> Fraction:
    return sum((c * x**i for i, c in enumerate(coefficients)), Fraction(0))


def choose(index: Any, matrix: np.ndarray, rows: Any, term: Callable[[int], Any]) -> Any:
    """Row `index` of a matrix times terms: one formula for each row, chosen by a Select."""
    *first, found = rows(matrix, [term(k) for k in range(matrix.shape[1])])
    for number, row in reversed(list(enumerate(first))):
        found = Select(index == number, row, found)
    return found


def rows_of_input(matrix: np.ndarray, terms: Sequence[Any]) -> list[Any]:
    """Every row of B^T times terms: an even and an odd part, which the rows of p and -p share."""
    parts: dict[tuple[float, ...], Any] = {}

    def part(row: np.ndarray, first: int) -> Any:
        chosen = tuple(float(c) if i % 2 == first else 0.0 for i, c in enumerate(row))
        if chosen not in parts:
            parts[chosen] = _sum(list(zip(chosen, terms, strict=True)))
        return parts[chosen]

    found = []
    for row in matrix:
        odd = [c for c in row[1::2] if c]
        sign = -1.0 if odd and odd[0] < 0 else 1.0
        even, rest = part(row, 0), part(sign * row, 1)
        if even is None or rest is None:
            only = rest if even is None else even
            found.append(only if sign > 0 else const(-1.0, only.dtype) * only)
        else:
            found.append(even + rest if sign > 0 else even - rest)
    return found


def rows_of_output(matrix: np.ndarray, terms: Sequence[Any]) -> list[Any]:
    """Every row of A^T times terms: what the points p and -p give is added or subtracted first."""
    pairs = range(1, len(terms) - 1, 2)
    sums = {i: terms[i] + terms[i + 1] for i in pairs}
    gaps = {i: terms[i] - terms[i + 1] for i in pairs}
    found = []
    for row in matrix:
        parts = [(row[0], terms[0])]
        parts += [(row[i], (sums if row[i] == row[i + 1] else gaps)[i]) for i in pairs]
        found.append(_sum([*parts, (row[-1], terms[-1])]))
    return found


def rows_plain(matrix: np.ndarray, terms: Sequence[Any]) -> list[Any]:
    """Every row of a matrix times terms."""
    return [_sum(list(zip(row, terms, strict=True))) for row in matrix]


def _sum(parts: list[tuple[float, Any]]) -> Any:
    """c0 * t0 + c1 * t1 + …, without factors of one and terms of zero; None of nothing."""
    total = None
    for c, term in parts:
        if c:
            scaled = term if c == 1 else const(float(c), term.dtype) * term
            total = scaled if total is None else total + scaled
    return total
