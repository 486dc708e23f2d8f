"""min and max of polynomials, in one normal form: base + min(0, d1, d2 …).

    min(a, b)  ->  a + min(0, b - a)          max(a, b)  ->  a + b - min(a, b)

so that min(i + 4, n) - i is min(4, n - i), and min(a, b) + max(a, b) is a + b.
"""

from __future__ import annotations

from mlcnb.arith.context import Context
from mlcnb.arith.division import is_exact
from mlcnb.arith.poly import Poly, is_before
from mlcnb.arith.proof import is_nonnegative
from mlcnb.ir.dtype import DType

#: more operands than this are not compared pair by pair
_MANY = 6


def minimum(ctx: Context, a: Poly, b: Poly, dtype: DType) -> Poly:
    """min(a, b)"""
    if not (is_exact(ctx, a, dtype) and is_exact(ctx, b, dtype)):
        return _wrapping(ctx, a, b, "wrapping_min")
    return _smallest(ctx, [*_operands(a, 1), *_operands(b, 1)])


def maximum(ctx: Context, a: Poly, b: Poly, dtype: DType) -> Poly:
    """max(a, b)"""
    if not (is_exact(ctx, a, dtype) and is_exact(ctx, b, dtype)):
        return _wrapping(ctx, a, b, "wrapping_max")
    each = [*_operands(a, -1), *_operands(b, -1)]
    kept = _undominated(ctx, [x.scaled(-1) for x in each])
    if len(kept) == 2:
        one, two = (x.scaled(-1) for x in kept)
        return one.plus(two).minus(_atom_of(ctx, [one, two]))
    return _atom_of(ctx, kept).scaled(-1)


def _operands(x: Poly, sign: int) -> list[Poly]:
    """[p, q] where x is min(p, q) (sign 1) or max(p, q) (sign -1); [x] where it is neither."""
    found = [m for m, c in x.terms.items() if len(m) == 1 and m[0].kind == "min" and c == sign]
    if len(found) != 1:
        return [x]
    rest = Poly(x.const, {m: c for m, c in x.terms.items() if m is not found[0]})
    return [rest.plus(arg, sign) for arg in found[0][0].args]


def _smallest(ctx: Context, each: list[Poly]) -> Poly:
    return _atom_of(ctx, _undominated(ctx, each))


def _undominated(ctx: Context, each: list[Poly]) -> list[Poly]:
    """The operands that may be the smallest."""
    unique = list({x.key: x for x in each}.values())
    if len(unique) > _MANY:
        return unique
    kept: list[Poly] = []
    for i, x in enumerate(unique):
        others = kept + unique[i + 1 :]
        if not any(is_nonnegative(ctx, x.minus(y)) for y in others):
            kept.append(x)
    return kept


def _atom_of(ctx: Context, each: list[Poly]) -> Poly:
    """min(each) as base + min(0, …)."""
    base = each[0]
    for x in each[1:]:
        if is_before(x, base):
            base = x
    if len(each) == 1:
        return base
    differences = [x.minus(base) for x in each]
    key = ("min", frozenset(d.key for d in differences))
    is_data = any(d.is_data for d in differences)
    atom = ctx.atom(key, "min", tuple(differences), None, is_data)
    return base.plus(Poly(0, {(atom,): 1}))


def _wrapping(ctx: Context, a: Poly, b: Poly, kind: str) -> Poly:
    atom = ctx.atom((kind, a.key, b.key), kind, (a, b), None, True)
    return Poly(0, {(atom,): 1})
