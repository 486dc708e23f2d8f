"""Comparisons of polynomials: decided where possible, else in a short form.

i * 4 + j < 16       ->  i < 4             where 0 <= j < 4
i + 1 > 0            ->  True              where i >= 0
i >= 4               ->  4 <= i
"""

from __future__ import annotations

from math import gcd, lcm

from mlcnb.arith.context import Context
from mlcnb.arith.division import coarser, is_exact
from mlcnb.arith.emission import emit
from mlcnb.arith.interval import bounds_of, modular_of
from mlcnb.arith.proof import equals, is_nonnegative, sign_of
from mlcnb.arith.sum import Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr


def compare(ctx: Context, kind: type, a: Sum, b: Sum, dtype: DType) -> PrimExpr:
    """`a kind b` (kind: LT, LE, GT, GE, EQ or NE) in its short form, or a bool constant."""
    if not (is_exact(ctx, a, dtype) and is_exact(ctx, b, dtype)):
        return _wrapping(kind, a, b, dtype)
    if kind in (e.EQ, e.NE):
        return _equal(ctx, kind, a, b, dtype)
    if kind in (e.GT, e.GE):
        kind, a, b = (e.LT if kind is e.GT else e.LE), b, a
    margin = b.minus(a).shifted(-1 if kind is e.LT else 0)
    sign = sign_of(ctx, margin)
    if sign is not None:
        return p.const(sign)
    return _at_least_zero(_shortest(ctx, margin), kind, dtype)


def _wrapping(kind: type, a: Sum, b: Sum, dtype: DType) -> PrimExpr:
    if a.is_same(b):
        return p.const(kind in (e.EQ, e.LE, e.GE))
    return kind(emit(a, dtype), emit(b, dtype))


def _shortest(ctx: Context, x: Sum) -> Sum:
    """x >= 0 without a common factor and without a division: one may uncover the other."""
    while True:
        shorter = _without_division(_coarsest(ctx, x))
        if shorter.is_same(x):
            return x
        x = shorter


def _coarsest(ctx: Context, x: Sum) -> Sum:
    """x >= 0 is the same as x // g >= 0: drops what is smaller than a common factor."""
    while True:
        factors = [abs(c) for c in x.terms.values()]
        parts = coarser(ctx, x, lcm(*factors)) if factors else None
        if parts is None:
            return x
        x = parts[0]


def _without_division(x: Sum) -> Sum:
    """k - y // c >= 0 says k * c + c - 1 - y >= 0, and y // c - k >= 0 says y - k * c >= 0."""
    while len(x.terms) == 1:
        ((atom, factor),) = x.terms.items()
        if atom.kind != "split" or atom.args[2] is not None:
            break
        if abs(factor) != 1:
            break
        inner, by, _ = atom.args
        slack = by - 1 if factor < 0 else 0
        x = Sum(x.const * by + slack).plus(inner, factor)
    return x


def _at_least_zero(margin: Sum, kind: type, dtype: DType) -> PrimExpr:
    """margin >= 0 as a comparison: negative terms on the left, positive ones on the right."""
    left = Sum(0, {m: -c for m, c in margin.terms.items() if c < 0})
    right = Sum(0, {m: c for m, c in margin.terms.items() if c > 0})
    const = margin.const
    if not left.terms:
        return e.LE(e.IntImm(dtype, -const), emit(right, dtype))
    if not right.terms:
        return e.LT(emit(left, dtype), e.IntImm(dtype, const + 1))
    if const in (0, -1):
        kind = e.LE if const == 0 else e.LT
    if kind is e.LT:
        const += 1
    if const >= 0:
        return kind(emit(left, dtype), emit(right.shifted(const), dtype))
    return kind(emit(left.shifted(-const), dtype), emit(right, dtype))


def _equal(ctx: Context, kind: type, a: Sum, b: Sum, dtype: DType) -> PrimExpr:
    difference = a.minus(b)
    if equals(ctx, a, b):
        return p.const(kind is e.EQ)
    if _never_zero(ctx, difference):
        return p.const(kind is e.NE)
    difference = difference.divided(gcd(*difference.terms.values(), difference.const))
    nearest = _without_farther(ctx, difference)
    if nearest is not None:
        return _equal(ctx, kind, nearest, Sum(), dtype)
    left = Sum(0, {m: c for m, c in difference.terms.items() if (c > 0) is _leads(difference)})
    right = left.minus(difference)
    if not _leads(difference):
        left, right = left.scaled(-1), right.scaled(-1)
    return kind(emit(left, dtype), emit(right, dtype))


def _without_farther(ctx: Context, x: Sum) -> Sum | None:
    """min(a, b) + k == 0 says a + k == 0 where b + k > 0 for certain; None of others."""
    atom, factor = next(iter(x.terms.items()))
    if len(x.terms) > 1 or atom.kind != "min" or abs(factor) != 1:
        return None
    found = [a.shifted(x.const * factor) for a in atom.args]
    near = [a for a in found if not is_nonnegative(ctx, a.shifted(-1))]
    return near[0] if len(near) == 1 else None


def _leads(x: Sum) -> bool:
    """True if the first term is positive."""
    return next(iter(x.terms.values())) > 0


def _never_zero(ctx: Context, x: Sum) -> bool:
    low, high = bounds_of(ctx, x)
    if low > 0 or high < 0:
        return True
    step, base = modular_of(ctx, x)
    if step and base % step:
        return True
    return is_nonnegative(ctx, x.shifted(-1)) or is_nonnegative(ctx, x.scaled(-1).shifted(-1))
