"""Constant bounds: between which numbers a polynomial lies, and its residue class."""

from __future__ import annotations

from math import ceil, floor, gcd, inf

from mlcnb.arith.context import EVERYTHING, Bound, Context
from mlcnb.arith.poly import Atom, Monomial, Poly
from mlcnb.ir.dtype import DType

#: at most so many min atoms of a polynomial are taken case by case
_CASES = 3


def bounds_of(ctx: Context, x: Poly) -> Bound:
    """(smallest, largest) value of `x` under what the context knows; infinite where unknown."""
    if not x.terms:
        return (x.const, x.const)
    found = ctx.bound_memo.get(x.key)
    if found is None:
        found = ctx.bound_memo[x.key] = _bounds(ctx, x, _CASES)
    return found


def _bounds(ctx: Context, x: Poly, cases: int) -> Bound:
    low: float = x.const
    high: float = x.const
    for monomial, coefficient in x.terms.items():
        first, last = monomial_bounds(ctx, monomial)
        if coefficient < 0:
            first, last = last, first
        low += first * coefficient
        high += last * coefficient
    if cases:
        for monomial in x.terms:
            if len(monomial) == 1 and monomial[0].kind == "min":
                first, last = _by_cases(ctx, x, monomial, cases - 1)
                return max(low, first), min(high, last)
    return low, high


def _by_cases(ctx: Context, x: Poly, monomial: Monomial, cases: int) -> Bound:
    """Bounds of rest + k * min(…): the min is one of its arguments."""
    factor = x.terms[monomial]
    rest = Poly(x.const, {m: c for m, c in x.terms.items() if m is not monomial})
    each = [_bounds(ctx, rest.plus(arg, factor), cases) for arg in monomial[0].args]
    pick = min if factor > 0 else max
    return pick(b[0] for b in each), pick(b[1] for b in each)


def monomial_bounds(ctx: Context, monomial: Monomial) -> Bound:
    """Bounds of a product of atoms."""
    if len(monomial) == 1:
        return atom_bounds(ctx, monomial[0])
    if len(monomial) == 2 and monomial[0] is monomial[1]:
        low, high = atom_bounds(ctx, monomial[0])
        largest = max(_times(low, low), _times(high, high))
        return (0 if low <= 0 <= high else min(low * low, high * high)), largest
    low, high = atom_bounds(ctx, monomial[0])
    for atom in monomial[1:]:
        first, last = atom_bounds(ctx, atom)
        corners = [_times(low, first), _times(low, last), _times(high, first), _times(high, last)]
        low, high = min(corners), max(corners)
    return low, high


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def atom_bounds(ctx: Context, atom: Atom) -> Bound:
    """Bounds of an atom: what was given, and what follows from how it is made."""
    found = ctx.bound_memo.get(atom)
    if found is None:
        low, high = _derived(ctx, atom)
        first, last = ctx.bounds.get(atom, EVERYTHING)
        found = ctx.bound_memo[atom] = (max(low, first), min(high, last))
    return found


def _derived(ctx: Context, atom: Atom) -> Bound:
    kind, args = atom.kind, atom.args
    if kind == "split":
        return split_bounds(bounds_of(ctx, args[0]), args[1], args[2])
    if kind == "min":
        each = [bounds_of(ctx, x) for x in args]
        return min(b[0] for b in each), min(b[1] for b in each)
    if kind == "floordiv":
        return _floordiv_bounds(bounds_of(ctx, args[0]), bounds_of(ctx, args[1]))
    if kind == "floormod":
        return _floormod_bounds(bounds_of(ctx, args[0]), bounds_of(ctx, args[1]))
    if kind == "cases":  # one of several values: a select
        each = [bounds_of(ctx, x) for x in args]
        return min(b[0] for b in each), max(b[1] for b in each)
    if kind == "within":  # known limits: a cast, a bit operation
        return args
    return EVERYTHING


def floor_of(x: float) -> float:
    """floor that leaves infinities alone."""
    return floor(x) if x not in (inf, -inf) else x


def floor_divide(x: float, by: int) -> float:
    """x // by that leaves infinities alone."""
    return x if x in (inf, -inf) else x // by


def ceil_divide(x: float, by: int) -> float:
    """ceil(x / by) that leaves infinities alone."""
    return x if x in (inf, -inf) else -(-x // by)


def split_bounds(x: Bound, lower: int, upper: int | None) -> Bound:
    """Bounds of x % upper // lower."""
    if upper is None or (x[0] >= 0 and x[1] < upper):
        return floor_divide(x[0], lower), floor_divide(x[1], lower)
    return 0, (upper - 1) // lower


def _floordiv_bounds(x: Bound, by: Bound) -> Bound:
    if by[0] < 1:
        return EVERYTHING
    corners = [_quotient(a, b) for a in x for b in by]
    return min(corners), max(corners)


def _quotient(a: float, b: float) -> float:
    if b == inf:
        return 0 if a >= 0 else -1
    return floor_divide(a, int(b))


def _floormod_bounds(x: Bound, by: Bound) -> Bound:
    if by[0] < 1:
        return EVERYTHING
    return 0, min(by[1] - 1, x[1]) if x[0] >= 0 else by[1] - 1


def fits(bound: Bound, dtype: DType) -> bool:
    """True if all values of the bound are values of an integer dtype."""
    return dtype.min_value <= bound[0] and bound[1] <= dtype.max_value


def modular_of(ctx: Context, x: Poly) -> tuple[int, int]:
    """(coefficient, base) with x = coefficient * something + base; coefficient 0 for a constant."""
    coefficient, base = 0, x.const
    for monomial, factor in x.terms.items():
        step, start = _monomial_modular(ctx, monomial)
        coefficient = gcd(coefficient, step * factor)
        base += start * factor
    return coefficient, base % coefficient if coefficient else base


def _monomial_modular(ctx: Context, monomial: Monomial) -> tuple[int, int]:
    step, start = atom_modular(ctx, monomial[0])
    for atom in monomial[1:]:
        other, base = atom_modular(ctx, atom)
        step, start = gcd(step * other, step * base, other * start), start * base
    return step, start


def atom_modular(ctx: Context, atom: Atom) -> tuple[int, int]:
    """(coefficient, base) of an atom."""
    known = ctx.modular.get(atom)
    if known is not None:
        return known
    if atom.kind == "split" and atom.args[1] == 1:
        step, start = modular_of(ctx, atom.args[0])
        step = gcd(step, atom.args[2])
        return step, start % step
    return 1, 0


def ceil_of(x: float) -> float:
    """ceil that leaves infinities alone."""
    return ceil(x) if x not in (inf, -inf) else x
