"""floordiv and floormod of polynomials.

(i * 4 + j) // 4         ->  i                where 0 <= j < 4
(i * 8 + j) // 4         ->  i * 2 + j // 4
(i * 4 + j) // 8         ->  i // 2           where 0 <= j < 4
i // 4 * 4 + i % 4       ->  i
i // 4 // 8, i // 4 % 8  ->  i // 32, i % 32 // 4
"""

from __future__ import annotations

from math import gcd

from mlcnb.arith.context import Context
from mlcnb.arith.interval import bounds_of, fits, floor_divide, modular_of
from mlcnb.arith.proof import is_nonnegative
from mlcnb.arith.sum import Atom, Sum, product_of
from mlcnb.ir.dtype import DType


def floordiv(ctx: Context, x: Sum, y: Sum, dtype: DType) -> Sum:
    """x // y"""
    if y.is_const and y.const != 0 and is_exact(ctx, x, dtype):
        if y.const < 0:
            x, y = x.scaled(-1), y.scaled(-1)
        return divide(ctx, x, y.const)
    return _by_symbol(ctx, x, y, dtype, "floordiv")


def floormod(ctx: Context, x: Sum, y: Sum, dtype: DType) -> Sum:
    """x % y"""
    if y.is_const and y.const != 0 and is_exact(ctx, x, dtype):
        if y.const < 0:
            return remainder(ctx, x.scaled(-1), -y.const).scaled(-1)
        return remainder(ctx, x, y.const)
    return _by_symbol(ctx, x, y, dtype, "floormod")


def is_exact(ctx: Context, x: Sum, dtype: DType) -> bool:
    """True if `x` cannot wrap around: index arithmetic, or data with small enough bounds."""
    return not x.is_data or fits(bounds_of(ctx, x), dtype)


def strip(x: Sum, by: int) -> tuple[Sum, Sum]:
    """(q, r) with x = q * by + r: what every term holds of `by`; 0 <= constant of r < by."""
    quotient: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, coefficient in x.terms.items():
        q = abs(coefficient) // by * (1 if coefficient > 0 else -1)
        if q:
            quotient[atom] = q
        if coefficient - q * by:
            rest[atom] = coefficient - q * by
    return Sum(x.const // by, quotient), Sum(x.const % by, rest)


def divide(ctx: Context, x: Sum, by: int) -> Sum:
    """x // by for a number by > 0."""
    if by == 1:
        return x
    quotient, rest = strip(x, by)
    only = _only_multiple(ctx, rest, by)
    if only is not None:
        return quotient.shifted(only)
    told, other = _told_multiples(ctx, rest, by)
    if told.terms:
        return quotient.plus(told).plus(divide(ctx, other, by))
    atom = rest.only_atom
    if atom is not None and atom.kind == "split":
        inner, lower, upper = atom.args
        if upper is None or upper % (lower * by) == 0:
            return quotient.plus(_part(ctx, inner, lower * by, upper))
    parts = coarser(ctx, rest, by)
    if parts is not None:
        coarse, _, step = parts
        return quotient.plus(divide(ctx, coarse, by // step))
    return quotient.plus(split(ctx, rest, by, None))


def remainder(ctx: Context, x: Sum, by: int) -> Sum:
    """x % by for a number by > 0."""
    if by == 1:
        return Sum()
    _, rest = strip(x, by)
    only = _only_multiple(ctx, rest, by)
    if only is not None:
        return rest.shifted(-only * by)
    step, base = modular_of(ctx, rest)
    if step % by == 0:
        return Sum(base % by)
    told, other = _told_multiples(ctx, rest, by)
    if told.terms:
        return remainder(ctx, other, by)
    atom = rest.only_atom
    if atom is not None and atom.kind == "split":
        inner, lower, upper = atom.args
        if upper is None or upper % (lower * by) == 0:
            return _part(ctx, inner, lower, lower * by)
    parts = coarser(ctx, rest, by)
    if parts is not None:
        coarse, fine, step = parts
        return remainder(ctx, coarse, by // step).scaled(step).plus(fine)
    return split(ctx, rest, 1, by)


def _part(ctx: Context, x: Sum, lower: int, upper: int | None) -> Sum:
    """x % upper // lower, where x may have factors in common with both."""
    if upper is None:
        return divide(ctx, x, lower)
    low = remainder(ctx, x, upper)
    atom = low.only_atom
    if atom is not None and atom.kind == "split" and atom.args[1] == 1:
        return split(ctx, atom.args[0], lower, atom.args[2])
    return divide(ctx, low, lower)


def _only_multiple(ctx: Context, x: Sum, by: int) -> int | None:
    """k where k * by <= x < (k + 1) * by, if there is such a number."""
    low, high = bounds_of(ctx, x)
    first = floor_divide(low, by)
    if first == floor_divide(high, by) and isinstance(first, int):
        return first
    return None


def _told_multiples(ctx: Context, x: Sum, by: int) -> tuple[Sum, Sum]:
    """(q, r) with x = q * by + r: variables that are told to be multiples are divided exactly."""
    quotient, rest = Sum(), x
    for atom, factor in x.terms.items():
        step, base = ctx.modular.get(atom, (1, 0))
        if step > 1 and factor * step % by == 0:
            whole = split(ctx, Sum(0, {atom: 1}), step, None)
            quotient = quotient.plus(whole, factor * step // by)
            rest = rest.without(atom).shifted(factor * base)
    return quotient, rest


def coarser(ctx: Context, x: Sum, by: int) -> tuple[Sum, Sum, int] | None:
    """(coarse, fine, g) with x = coarse * g + fine, 0 <= fine < g, and g a divisor of `by`.

    Then x // by = coarse // (by / g).
    """
    for step in _common_factors(x, by):
        coarse = {m: c for m, c in x.terms.items() if c % step == 0}
        fine = Sum(x.const % step, {m: c for m, c in x.terms.items() if c % step})
        extra = _only_multiple(ctx, fine, step)
        if coarse and extra is not None:
            whole = Sum(x.const - x.const % step, coarse).divided(step).shifted(extra)
            return whole, fine.shifted(-extra * step), step
    return None


def _common_factors(x: Sum, by: int) -> list[int]:
    """Divisors of `by` (more than 1) that some coefficients of `x` share with it, largest first."""
    found = {gcd(c, by) for c in x.terms.values()}
    found |= {gcd(a, b) for a in found for b in found}
    return sorted((g for g in found if g > 1), reverse=True)


def split(ctx: Context, x: Sum, lower: int, upper: int | None) -> Sum:
    """The atom x % upper // lower."""
    key = ("split", x.key, lower, upper)
    atom = ctx.atom(key, "split", (x, lower, upper), None, x.is_data)
    return Sum(0, {atom: 1})


def _by_symbol(ctx: Context, x: Sum, y: Sum, dtype: DType, kind: str) -> Sum:
    """Division by something symbolic: what is surely a multiple of it goes out."""
    if not y.is_const and y.const <= 0 and all(c < 0 for c in y.terms.values()):
        found = _by_symbol(ctx, x.scaled(-1), y.scaled(-1), dtype, kind)
        return found if kind == "floordiv" else found.scaled(-1)
    if not (is_exact(ctx, x, dtype) and is_exact(ctx, y, dtype)) or y.is_const:
        return of_two(ctx, x, y, f"wrapping_{kind}")
    quotient, rest = _strip_symbolic(x, y)
    if is_nonnegative(ctx, rest) and is_nonnegative(ctx, y.minus(rest).shifted(-1)):
        return quotient if kind == "floordiv" else rest
    if not rest.terms and rest.const == 0:
        return quotient if kind == "floordiv" else rest
    found = of_two(ctx, rest, y, kind)
    return quotient.plus(found) if kind == "floordiv" else found


def of_two(ctx: Context, x: Sum, y: Sum, kind: str, wraps: bool = False) -> Sum:
    """The atom of an operation on two sums; what wraps around counts as data."""
    is_data = wraps or x.is_data or y.is_data
    atom = ctx.atom((kind, x.key, y.key), kind, (x, y), None, is_data)
    return Sum(0, {atom: 1})


def _strip_symbolic(x: Sum, y: Sum) -> tuple[Sum, Sum]:
    """(q, r) with x = q * y + r, for y of one term, or x a multiple of y."""
    if y.const or len(y.terms) != 1:
        ratio = _ratio(x, y)
        return (Sum(), x) if ratio is None else (Sum(ratio), Sum())
    ((divisor, factor),) = y.terms.items()
    quotient: dict[Atom, int] = {}
    const = 0
    rest: dict[Atom, int] = {}
    for atom, coefficient in x.terms.items():
        left = _without(atom, divisor)
        if left is None or coefficient % factor:
            rest[atom] = coefficient
        elif left:
            quotient[product_of(left)] = coefficient // factor
        else:
            const = coefficient // factor
    return Sum(const, quotient), Sum(x.const, rest)


def _ratio(x: Sum, y: Sum) -> int | None:
    atom = next(iter(y.terms))
    ratio, left = divmod(x.terms.get(atom, 0), y.terms[atom])
    return ratio if not left and ratio and x.is_same(y.scaled(ratio)) else None


def _without(product: Atom, divisor: Atom) -> list[Atom] | None:
    """The factors of product / divisor, or None where it does not divide."""
    rest = list(product.factors)
    for atom in divisor.factors:
        if atom not in rest:
            return None
        rest.remove(atom)
    return rest


def recombine(ctx: Context, x: Sum) -> Sum:
    """`i // 4 * 4 + i % 4` becomes `i`, wherever quotient and remainder of one thing meet."""
    while len(x.terms) > 1:
        merged = _recombine_numbers(ctx, x) or _recombine_symbols(x)
        if merged is None:
            return x
        x = merged
    return x


def _recombine_numbers(ctx: Context, x: Sum) -> Sum | None:
    parts: dict[tuple, tuple[Atom, int]] = {}
    for atom, coefficient in x.terms.items():
        if atom.kind == "split":
            parts[(atom.args[0].key, atom.args[2])] = (atom, coefficient)
    if len(parts) < 2:
        return None
    for atom, coefficient in parts.values():
        inner, lower, upper = atom.args
        fine = parts.get((inner.key, lower))
        if fine is not None and coefficient * fine[0].args[1] == fine[1] * lower:
            start = fine[0].args[1]
            if upper is None:  # as a quotient is written, so that it meets others
                whole = divide(ctx, inner, start)
            else:
                whole = split(ctx, inner, start, upper)
            return _put_in_place(x, atom, fine[0], whole.scaled(fine[1]))
    return None


def _put_in_place(x: Sum, coarse: Atom, fine: Atom, whole: Sum) -> Sum:
    """`x` with `whole` for two of its terms, where the first of them stood."""
    terms = list(x.terms.items())
    at = min(i for i, (m, _) in enumerate(terms) if m in (coarse, fine))
    before = Sum(x.const, dict(terms[:at]))
    after = Sum(0, {m: c for m, c in terms[at:] if m not in (coarse, fine)})
    return before.plus(whole).plus(after)


def _recombine_symbols(x: Sum) -> Sum | None:
    for atom, coefficient in x.terms.items():
        if atom.kind not in ("floormod", "truncmod"):
            continue
        if atom.kind == "truncmod":
            merged = _recombine_truncated(x, atom)
            if merged is not None:
                return merged
            continue
        for other, factor in x.terms.items():
            match = [a for a in other.factors if a.kind == "floordiv" and _same_args(a, atom)]
            if match and factor == coefficient and _is_multiple(other, match[0], atom.args[1]):
                return _put_in_place(x, other, atom, atom.args[0].scaled(coefficient))
    return None


def _recombine_truncated(x: Sum, atom: Atom) -> Sum | None:
    """tdiv(y, c) * c + tmod(y, c) is y."""
    coefficient = x.terms[atom]
    for other, factor in x.terms.items():
        if other.kind == "truncdiv" and _same_args(other, atom):
            if atom.args[1].is_const and factor == coefficient * atom.args[1].const:
                return _put_in_place(x, other, atom, atom.args[0].scaled(coefficient))
    return None


def _same_args(a: Atom, b: Atom) -> bool:
    return a.args[0].is_same(b.args[0]) and a.args[1].is_same(b.args[1])


def _is_multiple(product: Atom, quotient: Atom, by: Sum) -> bool:
    """True if the product is quotient * by, for `by` of one term with coefficient 1."""
    if by.const or len(by.terms) != 1:
        return False
    ((divisor, factor),) = by.terms.items()
    return factor == 1 and quotient.by(divisor) is product
