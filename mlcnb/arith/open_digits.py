"""Digits of a number where the places are sizes that only a run knows.

    [f // (h * 6), f % (h * 6) // h, f % h]     determines f: its digits from h * 6 on, from h to
                                                h * 6, and below h

Of a number X, X % m // c is the part from place c up to place m, where c divides m. Places are
compared as products: h divides 6 * h, and h + 2 divides 6 * h + 12. That X is
m * (X // m) + c * (X % m // c) + X % c holds for all m = k * c but zero, by which nobody divides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from math import gcd
from typing import Any, NamedTuple

from mlcnb.arith.atoms import Opaque
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Quotient, Remainder, Sum
from mlcnb.ir import expr as e


class Place(NamedTuple):
    """A product: a number times factors, each with how often it occurs."""

    number: int
    factors: frozenset[tuple[Any, int]] = frozenset()

    def by(self, other: Place) -> Place:
        """The product of both."""
        counts = Counter(dict(self.factors)) + Counter(dict(other.factors))
        return Place(self.number * other.number, frozenset(counts.items()))

    def divides(self, other: Place) -> bool:
        """True if the other one is this one times a product of sizes."""
        theirs = dict(other.factors)
        there = all(theirs.get(factor, 0) >= count for factor, count in self.factors)
        return there and self.number != 0 and other.number % self.number == 0


ONE = Place(1)
#: from which place to which (None: to the end)
OpenDigit = tuple[Place, Place | None]


def open_digit(atom: Any) -> tuple[Sum, OpenDigit] | None:
    """The number that a quotient or remainder is a digit of, and which one; else None."""
    found = _division(atom)
    if found is None:
        return None
    is_quotient, inner, by = found
    below = _division(inner.only_atom)
    if is_quotient:
        if below is not None and not below[0] and by.divides(below[2]):
            return below[1], (by, below[2])
        return inner, (by, None)
    if below is not None and below[0]:
        return below[1], (below[2], below[2].by(by))
    return inner, (ONE, by)


def covers(digits: Sequence[OpenDigit]) -> bool:
    """True if the digits follow each other from the first place to the end."""
    place, left = ONE, list(digits)
    while left:
        nexts = [upper for lower, upper in left if lower == place]
        if not nexts or None in nexts:
            return bool(nexts)
        left = [digit for digit in left if digit[0] != place]
        place = nexts[0]  # type: ignore[assignment]
    return False


def _division(atom: Any) -> tuple[bool, Sum, Place] | None:
    """Whether it is a quotient, of what, and by what."""
    if isinstance(atom, Quotient | Remainder):
        return isinstance(atom, Quotient), atom.inner, Place(atom.by)
    if isinstance(atom, Opaque) and isinstance(atom.node, e.FloorDiv | e.FloorMod):
        return isinstance(atom.node, e.FloorDiv), of(atom.node.a), place_of(of(atom.node.b))
    return None


def place_of(size: Sum) -> Place:
    """A size as a product."""
    if size.value is not None:
        return Place(size.value)
    shared = reduce(gcd, size.terms.values(), size.const)
    rest = Sum(size.const // shared, {t: c // shared for t, c in size.terms.items()})
    atom = rest.only_atom
    if isinstance(atom, Opaque) and isinstance(atom.node, e.Mul):
        parts = place_of(of(atom.node.a)).by(place_of(of(atom.node.b)))
        return Place(shared).by(parts)
    return Place(shared, frozenset([(rest.key, 1)]))
