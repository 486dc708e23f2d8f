"""The ends of a sum while some of its variables run, and what is known of its size.

    i * 4 + j + n        j in 0..4         i * 4 + n  ..  i * 4 + n + 3
    (n + 7) // 8 * 8     n open            at least n, at most n + 7

Ends are sums of the variables that do not run, or None where they cannot be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.arith.atoms import Extreme, Opaque
from mlcnb.arith.reading import divided, larger, smaller
from mlcnb.arith.sum import UNKNOWN, Bounds, Quotient, Remainder, Sum, is_index
from mlcnb.ir import expr as e

#: sums that are looked at for one bound; then numbers alone count
MOST_SUMS = 500
#: a variable's first and last value, themselves sums of outer variables
Span = tuple[Sum, Sum]
#: those of variables that run; None for one of which nothing is known
Spans = Mapping[e.Var, "Span | None"]
#: the numbers between which variables run (inclusive)
Numbers = Mapping[e.Var, "tuple[int, int] | None"]


def interval(x: Sum, inner: Numbers) -> Span | None:
    """`extremes` of a sum of which some variables run between numbers."""
    low, high, rest = x.const, x.const, {}
    for atom, coefficient in x.terms.items():
        if not isinstance(atom, e.Var):
            break
        if atom not in inner:
            rest[atom] = coefficient
            continue
        ends = inner[atom]
        if ends is None:
            return None
        low += coefficient * ends[coefficient < 0]
        high += coefficient * ends[coefficient > 0]
    else:
        return Sum(low, rest), Sum(high, rest)
    known = {v: (None, None) if ends is None else ends for v, ends in inner.items()}
    spans = {v: ends and (Sum(ends[0]), Sum(ends[1])) for v, ends in inner.items()}
    return extremes(x, spans, known)


def extremes(x: Sum, inner: Spans, known: Mapping[e.Var, Bounds]) -> Span | None:
    """Smallest and largest value of `x` while the `inner` variables take all their values.

    None where that cannot be told.
    """
    low = high = Sum(x.const)
    for atom, coefficient in x.terms.items():
        ends = _atom_extremes(atom, inner, known)
        if ends is None:
            return None
        first, last = ends if coefficient > 0 else ends[::-1]
        low = low.plus(first, coefficient)
        high = high.plus(last, coefficient)
    return low, high


def _atom_extremes(atom: Any, inner: Spans, known: Mapping[e.Var, Bounds]) -> Span | None:
    if isinstance(atom, e.Var):
        return inner[atom] if atom in inner else _fixed(atom)
    if not any(v in inner for v in atom.variables()):
        return _fixed(atom)
    if isinstance(atom, Extreme):
        pairs = extremes(atom.a, inner, known), extremes(atom.b, inner, known)
        pick = smaller if atom.is_min else larger
        if pairs[0] is None or pairs[1] is None:
            return None
        return pick(pairs[0][0], pairs[1][0], known), pick(pairs[0][1], pairs[1][1], known)
    if isinstance(atom, Quotient):
        ends = extremes(atom.inner, inner, known)
        return ends and (divided(ends[0], atom.by, known), divided(ends[1], atom.by, known))
    if isinstance(atom, Remainder):
        return _remainder_extremes(atom, extremes(atom.inner, inner, known), known)
    if isinstance(atom, Opaque) and atom.inner is not None and is_index(atom.node.dtype):
        return extremes(atom.inner, inner, known)
    low, high = atom.bounds({**known, **_numbers(inner)})
    return None if low is None or high is None else (Sum(low), Sum(high))


def _fixed(atom: Any) -> Span:
    same = Sum(0, {atom: 1})
    return same, same


def _remainder_extremes(atom: Remainder, ends: Span | None, known: Mapping[e.Var, Bounds]) -> Span:
    if ends is not None:
        period = divided(ends[0], atom.by, known)
        if period.is_same(divided(ends[1], atom.by, known)):
            start = period.scaled(atom.by)
            return ends[0].minus(start), ends[1].minus(start)
    return Sum(0), Sum(atom.by - 1)


def _numbers(inner: Spans) -> dict[e.Var, Bounds]:
    return {
        v: UNKNOWN if ends is None else (ends[0].value, ends[1].value) for v, ends in inner.items()
    }


def at_most(x: Sum, y: Sum, known: Mapping[e.Var, Bounds]) -> bool:
    """True if x <= y for sure."""
    high = largest(x.minus(y), known)
    return high is not None and high <= 0


def largest(x: Sum, known: Mapping[e.Var, Bounds]) -> int | None:
    """An upper bound of `x`; sums of quotients of one divisor, and minima, are looked at
    together.
    """
    return _Largest(known).of(x)


class _Largest:
    """Upper bounds of sums. What is left of several minima is the same whichever goes first: each
    sum is looked at once.
    """

    def __init__(self, known: Mapping[e.Var, Bounds]) -> None:
        self.known = known
        self.found: dict[Any, int | None] = {}

    def of(self, x: Sum) -> int | None:
        """See `largest`."""
        if len(x.terms) < 2:
            return self.looked(x)
        if x.key not in self.found:
            if len(self.found) >= MOST_SUMS:
                return x.bounds(self.known)[1]
            self.found[x.key] = self.looked(x)
        return self.found[x.key]

    def looked(self, x: Sum) -> int | None:
        """`of`, found anew."""
        plain = x.bounds(self.known)[1]
        for atom, coefficient in x.terms.items():
            if isinstance(atom, Extreme) and abs(coefficient) == 1:
                found = self.with_extreme(x, atom, coefficient)
            elif isinstance(atom, Quotient) and coefficient > 0:
                found = self.with_quotients(x, atom, coefficient)
            else:
                continue
            if found is not None and (plain is None or found < plain):
                plain = found
        return self.without_quotient(x) if plain is None else plain

    def without_quotient(self, x: Sum) -> int | None:
        """c * (X // c) lies in X - c + 1 .. X: for symbolic X, where constants bound nothing."""
        for atom, coefficient in x.terms.items():
            if isinstance(atom, Quotient) and coefficient % atom.by == 0:
                rest = x.without(atom)
                times = coefficient // atom.by
                slack = 0 if times > 0 else atom.by - 1
                return self.of(rest.plus(atom.inner.shifted(-slack), times))
        return None

    def with_extreme(self, x: Sum, atom: Extreme, coefficient: int) -> int | None:
        """A minimum is at most each of its arguments, a maximum one of them."""
        rest = x.without(atom)
        ends = [self.of(rest.plus(part, coefficient)) for part in (atom.a, atom.b)]
        if atom.is_min == (coefficient > 0):
            return min((end for end in ends if end is not None), default=None)
        return None if None in ends else max(ends)  # type: ignore[type-var]

    def with_quotients(self, x: Sum, atom: Quotient, coefficient: int) -> int | None:
        """k * (X // c) - k * (Y // c) is at most k * ceil((X - Y) / c)."""
        for other, c in x.terms.items():
            if isinstance(other, Quotient) and c == -coefficient and other.by == atom.by:
                gap = atom.inner.minus(other.inner).bounds(self.known)[1]
                if gap is not None:
                    remaining = self.of(x.without(atom).without(other))
                    if remaining is not None:
                        return remaining + coefficient * -(-gap // atom.by)
        return None
