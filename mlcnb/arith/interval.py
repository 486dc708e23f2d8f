"""Constant bounds: between which numbers a polynomial lies, and its residue class."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import gcd, inf

from mlcnb.arith.atoms import times
from mlcnb.arith.context import EVERYTHING, Bound, Context
from mlcnb.arith.sum import Atom, Sum
from mlcnb.ir.dtype import DType

#: at most so many min atoms of a polynomial are taken case by case
_CASES = 3


def bounds_of(ctx: Context, x: Sum) -> Bound:
    """(smallest, largest) value of `x` under what the context knows; infinite where unknown."""
    if not x.terms:
        return (x.const, x.const)
    found = ctx.bound_memo.get(x.key)
    if found is None:
        found = ctx.bound_memo[x.key] = _bounds(ctx, x, _CASES)
    return found


def _bounds(ctx: Context, x: Sum, cases: int) -> Bound:
    low: float = x.const
    high: float = x.const
    for atom, coefficient in x.terms.items():
        first, last = atom_bounds(ctx, atom)
        if coefficient < 0:
            first, last = last, first
        low += first * coefficient
        high += last * coefficient
    if cases:
        for atom in x.terms:
            if atom.kind == "min":
                first, last = _by_cases(ctx, x, atom, cases - 1)
                return max(low, first), min(high, last)
    return low, high


def _by_cases(ctx: Context, x: Sum, atom: Atom, cases: int) -> Bound:
    """Bounds of rest + k * min(…): the min is one of its arguments."""
    factor, rest = x.terms[atom], x.without(atom)
    each = [_bounds(ctx, rest.plus(arg, factor), cases) for arg in atom.args]
    pick = min if factor > 0 else max
    return pick(b[0] for b in each), pick(b[1] for b in each)


def _product_bounds(ctx: Context, factors: Sequence[Atom]) -> Bound:
    """Bounds of a product of atoms."""
    if len(factors) == 2 and factors[0] is factors[1]:
        low, high = atom_bounds(ctx, factors[0])
        largest = max(times(low, low), times(high, high))
        return (0 if low <= 0 <= high else min(low * low, high * high)), largest
    low, high = atom_bounds(ctx, factors[0])
    for atom in factors[1:]:
        first, last = atom_bounds(ctx, atom)
        corners = [times(low, first), times(low, last), times(high, first), times(high, last)]
        low, high = min(corners), max(corners)
    return low, high


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
    if kind == "product":
        return _product_bounds(ctx, args)
    if kind == "min":
        each = [bounds_of(ctx, x) for x in args]
        return min(b[0] for b in each), min(b[1] for b in each)
    if kind == "cases":  # one of several values: a select
        each = [bounds_of(ctx, x) for x in args]
        return min(b[0] for b in each), max(b[1] for b in each)
    if kind == "within":  # known limits: a cast, a bit operation
        return args
    if kind == "cast":
        return _cast_bounds(bounds_of(ctx, args[0]), args[0].is_data, *args[1:])
    if kind in _OF_TWO:
        return _OF_TWO[kind](bounds_of(ctx, args[0]), bounds_of(ctx, args[1]))
    return EVERYTHING


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


def _divisors(by: Bound) -> list[float]:
    """The divisors at which a quotient is largest or smallest; 0 is none."""
    low, high = by[0] or 1, by[1] or -1
    return [low, high] if low > 0 or high < 0 else [low, -1, 1, high]


def _quotients(x: Bound, by: Bound, divide: Callable[[int, int], int]) -> Bound:
    """Bounds of x / y, rounded as `divide` does."""
    corners = [_quotient(a, b, divide) for a in x for b in _divisors(by)]
    return min(corners), max(corners)


def _quotient(a: float, b: float, divide: Callable[[int, int], int]) -> float:
    if b in (inf, -inf):
        return divide(-1, 2) if a and (a > 0) != (b > 0) else 0
    if a in (inf, -inf):
        return a if b > 0 else -a
    return divide(int(a), int(b))


def floordiv_bounds(x: Bound, by: Bound) -> Bound:
    """Bounds of x // y."""
    return _quotients(x, by, operator.floordiv)


def trunc_divide(a: int, b: int) -> int:
    """a / b rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def truncdiv_bounds(x: Bound, by: Bound) -> Bound:
    """Bounds of x / y rounded towards zero."""
    return _quotients(x, by, trunc_divide)


def floormod_bounds(x: Bound, by: Bound) -> Bound:
    """Bounds of x % y."""
    low: float = min(0, by[0] + 1)
    if by[0] < 0:
        return low, max(0, min(by[1] - 1, x[1]) if x[0] >= 0 else by[1] - 1)
    if x[0] >= 0 and x[1] < by[0]:
        return x
    return 0, min(by[1] - 1, x[1]) if x[0] >= 0 else by[1] - 1


def truncmod_bounds(x: Bound, by: Bound) -> Bound:
    """Bounds of the remainder of `truncdiv_bounds`."""
    most = max(abs(by[0]), abs(by[1])) - 1
    return max(min(x[0], 0), -most), min(max(x[1], 0), most)


def _and_bounds(x: Bound, y: Bound) -> Bound:
    """Of two numbers that are not negative no more than the smaller; of one, no more than it."""
    masks = [high for low, high in (x, y) if low >= 0]
    return (0, min(masks)) if masks else (-inf, inf)


def _shift_bounds(x: Bound, by: Bound) -> Bound:
    """x >> by: the most where the shift is least; by less than 0 only the sign is left."""
    least, most = max(by[0], 0), inf if by[0] < 0 else by[1]
    return (
        _shifted(x[0], least if x[0] < 0 else most),
        _shifted(x[1], most if x[1] < 0 else least),
    )


def _clz_bounds(x: Bound, bits: Bound) -> Bound:
    """The zeros before the first one of a number of so many bits: fewest where it is largest."""
    low, high = (int(min(max(end, 0), 2 ** (bits[1] - 1) - 1)) for end in x)
    return (0 if x[0] < 0 else bits[1] - high.bit_length()), bits[1] - low.bit_length()


def _popcount_bounds(x: Bound, bits: Bound) -> Bound:
    """The ones of a number of so many bits."""
    if x[0] < 0 or x[1] == inf:
        return 0, bits[1]
    return int(x[0] > 0), int(x[1]).bit_length()


def _shifted(x: float, by: float) -> float:
    if x in (inf, -inf):
        return x
    return int(x) >> int(min(by, 64))


_OF_TWO: dict[str, Callable[[Bound, Bound], Bound]] = {
    "floordiv": floordiv_bounds,
    "floormod": floormod_bounds,
    "truncdiv": truncdiv_bounds,
    "truncmod": truncmod_bounds,
    "bitwise_and": _and_bounds,
    "shift_right": _shift_bounds,
    "clz": _clz_bounds,
    "popcount": _popcount_bounds,
}


def _cast_bounds(x: Bound, is_data: bool, source: DType, to: DType) -> Bound:
    """An index in another integer dtype: what it was, where that fits; else it wraps around."""
    if is_data and not fits(x, source):
        x = (source.min_value, source.max_value)
    low, high = max(x[0], source.min_value), min(x[1], source.max_value)
    return (low, high) if fits((low, high), to) else (to.min_value, to.max_value)


def fits(bound: Bound, dtype: DType) -> bool:
    """True if all values of the bound are values of an integer dtype."""
    return dtype.min_value <= bound[0] and bound[1] <= dtype.max_value


def modular_of(ctx: Context, x: Sum) -> tuple[int, int]:
    """(coefficient, base) with x = coefficient * something + base; coefficient 0 for a constant."""
    coefficient, base = 0, x.const
    for atom, factor in x.terms.items():
        step, start = atom_modular(ctx, atom)
        coefficient = gcd(coefficient, step * factor)
        base += start * factor
    return coefficient, base % coefficient if coefficient else base


def _product_modular(ctx: Context, factors: Sequence[Atom]) -> tuple[int, int]:
    step, start = atom_modular(ctx, factors[0])
    for atom in factors[1:]:
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
    if atom.kind == "product":
        return _product_modular(ctx, atom.args)
    if atom.kind == "min":
        return _one_of([(0, 0), *(modular_of(ctx, x) for x in atom.args)])
    if atom.kind == "cases":
        return _one_of([modular_of(ctx, x) for x in atom.args])
    if atom.kind == "bitwise_and" and atom.args[1].is_const:
        return _masked(modular_of(ctx, atom.args[0]), atom.args[1].const)
    if atom.kind == "cast" and _is_kept(ctx, *atom.args):
        return modular_of(ctx, atom.args[0])
    return 1, 0


def _is_kept(ctx: Context, x: Sum, source: DType, to: DType) -> bool:
    """True if a cast changes no number that its operand may be."""
    low, high = bounds_of(ctx, x)
    if x.is_data and not fits((low, high), source):
        return False
    return fits((max(low, source.min_value), min(high, source.max_value)), to)


def _one_of(each: list[tuple[int, int]]) -> tuple[int, int]:
    """The residues that one of several numbers may have."""
    step, start = each[0]
    for other, base in each[1:]:
        step = gcd(step, other, base - start)
    return step, start % step if step else start


def _masked(residue: tuple[int, int], mask: int) -> tuple[int, int]:
    """x & 0b111 is x % 8; of any other mask nothing is known."""
    if mask < 0 or mask & (mask + 1):
        return 1, 0
    step = gcd(residue[0], mask + 1)
    return step, residue[1] % step
