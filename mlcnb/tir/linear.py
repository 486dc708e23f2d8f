"""Index expressions as sums: `i * 32 + j + 5` is {i: 32, j: 1} + 5, what is not linear is an atom.

The quick, structural form of what `mlcnb.arith` does in general: used by lowering passes, where
indices have been simplified already.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal


class Linear:
    """constant + sum of coefficient * term; terms are PrimExprs, told apart structurally."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int = 0, terms: dict[e.PrimExpr, int] | None = None) -> None:
        self.constant = constant
        self.terms = terms or {}

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + other * factor"""
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            key = _same_key(terms, term)
            terms[key] = terms.get(key, 0) + coefficient * factor
        terms = {t: c for t, c in terms.items() if c}
        return Linear(self.constant + other.constant * factor, terms)

    def times(self, factor: int) -> Linear:
        """self * factor"""
        return Linear().plus(self, factor)

    def expr(self, dtype: str = "int32") -> e.PrimExpr:
        """The sum as an expression again."""
        total: e.PrimExpr = p.const(0, dtype)
        for term, coefficient in self.terms.items():
            total = total + term * coefficient
        return total + self.constant


def _same_key(terms: Mapping[e.PrimExpr, int], term: e.PrimExpr) -> e.PrimExpr:
    if term in terms or isinstance(term, e.Var):
        return term
    for key in terms:
        if not isinstance(key, e.Var) and structural_equal(key, term):
            return key
    return term


def linear_form(x: e.PrimExpr) -> Linear:
    """`x` as a Linear; anything that is no sum or product with a constant is one term."""
    match x:
        case e.IntImm(value):
            return Linear(value)
        case e.Add(a, b):
            return linear_form(a).plus(linear_form(b))
        case e.Sub(a, b):
            return linear_form(a).plus(linear_form(b), -1)
        case e.Mul(a, e.IntImm(factor)) | e.Mul(e.IntImm(factor), a):
            return linear_form(a).times(factor)
        case _:
            return Linear(0, {x: 1})


def interval(
    x: e.PrimExpr, inner: Mapping[e.Var, tuple[int, int] | None]
) -> tuple[Linear, Linear] | None:
    """Smallest and largest value of `x` over inner variables in lo..hi (inclusive), as Linears.

    None where an inner variable stands inside something that cannot be bounded.
    """
    form = linear_form(x)
    low, high = Linear(form.constant), Linear(form.constant)
    for term, coefficient in form.terms.items():
        bounds = term_bounds(term, inner)
        if bounds is None:
            return None
        first, last = bounds if coefficient > 0 else bounds[::-1]
        low = low.plus(first, coefficient)
        high = high.plus(last, coefficient)
    return low, high


def term_bounds(
    term: e.PrimExpr, inner: Mapping[e.Var, tuple[int, int] | None]
) -> tuple[Linear, Linear] | None:
    """Bounds of one term: an inner variable, a floordiv or floormod of bounded things, or fixed."""
    if isinstance(term, e.Var):
        if term in inner:
            ends = inner[term]
            return None if ends is None else (Linear(ends[0]), Linear(ends[1]))
        return Linear(0, {term: 1}), Linear(0, {term: 1})
    if not any(isinstance(n, e.Var) and n in inner for n in walk(term)):
        return Linear(0, {term: 1}), Linear(0, {term: 1})
    match term:
        case e.FloorDiv(a, e.IntImm(by)) if by > 0:
            return _floordiv(interval(a, inner), by)
        case e.FloorMod(a, e.IntImm(by)) if by > 0:
            return _floormod(interval(a, inner), by)
        case e.Min(a, b) | e.Max(a, b):
            return _min_max(term, interval(a, inner), interval(b, inner))
        case e.Cast(_, value):
            return interval(value, inner)
    return None


def _floordiv(bounds: tuple[Linear, Linear] | None, by: int) -> tuple[Linear, Linear] | None:
    if bounds is None:
        return None
    quotients = [_divide(bound, by) for bound in bounds]
    return None if None in quotients else (quotients[0], quotients[1])  # type: ignore[return-value]


def _divide(bound: Linear, by: int) -> Linear | None:
    if any(c % by for c in bound.terms.values()):
        return None
    return Linear(bound.constant // by, {t: c // by for t, c in bound.terms.items()})


def _floormod(bounds: tuple[Linear, Linear] | None, by: int) -> tuple[Linear, Linear]:
    if bounds is not None:
        low, high = bounds
        fixed = all(c % by == 0 for c in (*low.terms.values(), *high.terms.values()))
        if fixed and not low.plus(high, -1).terms and low.constant // by == high.constant // by:
            return Linear(low.constant % by), Linear(high.constant % by)
    return Linear(0), Linear(by - 1)


def _min_max(
    term: e.PrimExpr,
    a: tuple[Linear, Linear] | None,
    b: tuple[Linear, Linear] | None,
) -> tuple[Linear, Linear] | None:
    if a is None or b is None:
        return None
    pick = min if isinstance(term, e.Min) else max
    bounds = []
    for x, y in zip(a, b, strict=True):
        difference = x.plus(y, -1)
        if difference.terms:
            return None
        bounds.append(pick((x, y), key=lambda bound: bound.constant))
    return bounds[0], bounds[1]
