"""Proofs that a polynomial is never negative.

Tried in order: constant bounds; a condition that holds; replacing variables by their symbolic
bounds (j <= n - 1 in n - 1 - j); taking a min case by case; bounding x // c by x / c, and x % n by
n; adding conditions.
"""

from __future__ import annotations

from functools import reduce
from math import inf

from mlcnb.arith.context import Context
from mlcnb.arith.interval import atom_bounds, bounds_of
from mlcnb.arith.sum import Atom, Sum

_DEPTH = 5


def is_nonnegative(ctx: Context, x: Sum, depth: int = _DEPTH) -> bool:
    """True if `x >= 0` can be proved."""
    if bounds_of(ctx, x)[0] >= 0:
        return True
    if not x.terms or depth <= 0:
        return False
    if any(bounds_of(ctx, x.minus(known))[0] >= 0 for known in ctx.constraints):
        return True
    return (
        _by_symbolic_bounds(ctx, x, depth)
        or _by_cases(ctx, x, depth)
        or _by_division(ctx, x, depth)
        or _by_remainder(ctx, x, depth)
        or _by_sum_of_conditions(ctx, x, depth)
    )


def _by_symbolic_bounds(ctx: Context, x: Sum, depth: int) -> bool:
    """A variable with symbolic bounds takes its worst value."""
    if not ctx.symbolic:
        return False
    for atom in reversed(list(x.atoms())):
        limits = ctx.symbolic.get(atom)
        parts = x.coefficient_of(atom) if limits else None
        if limits is None or parts is None:
            continue
        factor, rest = parts
        low, high = bounds_of(ctx, factor)
        worst = limits[0] if low >= 0 else limits[1] if high <= 0 else None
        if worst is not None and is_nonnegative(ctx, rest.plus(factor.times(worst)), depth - 1):
            return True
    return False


def _by_cases(ctx: Context, x: Sum, depth: int) -> bool:
    """A min is one of its arguments."""
    for atom, factor in x.terms.items():
        if atom.kind == "min":
            rest = x.without(atom)
            cases = [rest.plus(arg, factor) for arg in atom.args]
            if factor > 0:
                return all(is_nonnegative(ctx, case, depth - 1) for case in cases)
            together = reduce(Sum.plus, cases)  # the largest is no less than the average
            return any(is_nonnegative(ctx, case, depth - 1) for case in [*cases, together])
    return False


def _by_remainder(ctx: Context, x: Sum, depth: int) -> bool:
    """x % n lies between 0 and n - 1; x - x % c is (x // c) * c."""
    for atom, factor in x.terms.items():
        rest = x.without(atom)
        if atom.kind == "floormod" and bounds_of(ctx, atom.args[1])[0] > 0:
            worst = rest if factor > 0 else rest.plus(atom.args[1].shifted(-1), factor)
            return is_nonnegative(ctx, worst, depth - 1)
        if atom.kind == "split" and atom.args[1] == 1 and atom.args[2] is not None:
            inner, _, by = atom.args
            whole = rest.plus(inner, factor)
            if len(whole.terms) < len(x.terms):
                key = ("split", inner.key, by, None)
                quotient = ctx.atom(key, "split", (inner, by, None), None, inner.is_data)
                whole = whole.plus(Sum(0, {quotient: 1}), -factor * by)
                return is_nonnegative(ctx, whole, depth - 1)
    return False


def _by_division(ctx: Context, x: Sum, depth: int) -> bool:
    """x // c lies between (x - c + 1) / c and x / c; alone, it is at least y where x >= c * y."""
    for atom, factor in x.terms.items():
        if atom.kind != "split" or atom.args[2] is not None:
            continue
        inner, by, _ = atom.args
        rest = x.without(atom)
        bound = inner.shifted(1 - by) if factor > 1 or factor == -1 else inner
        return is_nonnegative(ctx, rest.scaled(by).plus(bound, factor), depth - 1)
    return False


def _by_sum_of_conditions(ctx: Context, x: Sum, depth: int) -> bool:
    """A condition that cancels a term of x that has no bound."""
    for known in ctx.constraints:
        if any(x.terms.get(m, 0) * c > 0 and _is_unbounded(ctx, m) for m, c in known.terms.items()):
            left = x.minus(known)
            shorter = len(left.terms) - len(x.terms)
            if shorter < 0 and is_nonnegative(ctx, left, depth - 1):
                return True
            if shorter == 0 and len(x.terms) <= 2 and is_nonnegative(ctx, left, depth - 2):
                return True
    return False


def _is_unbounded(ctx: Context, atom: Atom) -> bool:
    low, high = atom_bounds(ctx, atom)
    return low == -inf or high == inf


def sign_of(ctx: Context, x: Sum) -> bool | None:
    """True if x >= 0 always, False if x < 0 always, None if neither can be proved."""
    if is_nonnegative(ctx, x):
        return True
    if is_nonnegative(ctx, x.scaled(-1).shifted(-1)):
        return False
    return None


def equals(ctx: Context, x: Sum, y: Sum) -> bool:
    """True if x == y can be proved."""
    difference = x.minus(y)
    if not difference.terms:
        return difference.const == 0
    return is_nonnegative(ctx, difference) and is_nonnegative(ctx, difference.scaled(-1))
