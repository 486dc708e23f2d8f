"""min and max of polynomials, in one normal form: base + min(0, d1, d2 …).

    min(a, b)  ->  a + min(0, b - a)          max(a, b)  ->  a + b - min(a, b)

so that min(i + 4, n) - i is min(4, n - i), and min(a, b) + max(a, b) is a + b.
"""

from __future__ import annotations

from math import gcd

from mlcnb.arith.context import Context
from mlcnb.arith.division import is_exact, of_two
from mlcnb.arith.proof import is_nonnegative
from mlcnb.arith.sum import Sum
from mlcnb.ir.dtype import DType

#: more operands than this are not compared pair by pair
_MANY = 6


def minimum(ctx: Context, a: Sum, b: Sum, dtype: DType) -> Sum:
    """min(a, b)"""
    if not (is_exact(ctx, a, dtype) and is_exact(ctx, b, dtype)):
        return of_two(ctx, a, b, "wrapping_min", wraps=True)
    return _atom_of(ctx, _undominated(ctx, [*_operands(a, 1), *_operands(b, 1)]))


def maximum(ctx: Context, a: Sum, b: Sum, dtype: DType) -> Sum:
    """max(a, b)"""
    if not (is_exact(ctx, a, dtype) and is_exact(ctx, b, dtype)):
        return of_two(ctx, a, b, "wrapping_max", wraps=True)
    each = [*_operands(a, -1), *_operands(b, -1)]
    kept = _undominated(ctx, [x.scaled(-1) for x in each])
    if len(kept) == 2:
        one, two = (x.scaled(-1) for x in kept)
        return one.plus(two).minus(_atom_of(ctx, [one, two]))
    return _atom_of(ctx, kept).scaled(-1)


def _operands(x: Sum, sign: int) -> list[Sum]:
    """[p, q] where x is min(p, q) (sign 1) or max(p, q) (sign -1); [x] where it is neither."""
    found = [atom for atom, c in x.terms.items() if atom.kind == "min" and c == sign]
    if len(found) != 1:
        return [x]
    rest = x.without(found[0])
    return [rest.plus(arg, sign) for arg in found[0].args]


def _undominated(ctx: Context, each: list[Sum]) -> list[Sum]:
    """The operands that may be the smallest."""
    unique = list({x.key: x for x in each}.values())
    if len(unique) > _MANY:
        return unique
    kept: list[Sum] = []
    for i, x in enumerate(unique):
        others = kept + unique[i + 1 :]
        if not any(is_nonnegative(ctx, x.minus(y)) for y in others):
            kept.append(x)
    return kept


def _is_before(a: Sum, b: Sum) -> bool:
    """A total order that does not change when both are shifted by the same amount."""
    difference = b.minus(a)
    if not difference.terms:
        return difference.const > 0
    leading = min(difference.terms, key=lambda atom: [x.serial for x in atom.factors])
    return difference.terms[leading] > 0


def _atom_of(ctx: Context, each: list[Sum]) -> Sum:
    """min(each) as base + min(0, …)."""
    base = each[0]
    for x in each[1:]:
        if _is_before(x, base):
            base = x
    if len(each) == 1:
        return base
    differences = [x.minus(base) for x in each]
    key = ("min", frozenset(d.key for d in differences))
    is_data = any(d.is_data for d in differences)
    atom = ctx.atom(key, "min", tuple(differences), None, is_data)
    return base.plus(Sum(0, {atom: 1}))


def without_common_factors(ctx: Context, x: Sum) -> Sum:
    """The sum with 8 * min(0, d) for min(0, 8 * d): one form, where two are kept as written."""
    for atom, times in x.terms.items():
        if atom.kind == "min":
            common = gcd(*(n for d in atom.args for n in (d.const, *d.terms.values())))
            if common > 1:
                smaller = _atom_of(ctx, [d.divided(common) for d in atom.args])
                x = x.without(atom).plus(smaller, times * common)
    return x
