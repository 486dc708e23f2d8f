"""Which variables do indices determine? Mixed-radix reasoning about sums.

    [i * 4 + j, k]           with j in 0..4 determines i, j and k: iterations share no element
    [i * 4 + j]              with j in 0..6 determines neither: tiles overlap
    [f // 8, f % 8]          determines f: its digits cover it
    [i + width 4]            (a slice of 4) does not determine i
    [f // (h * 6), f % (h * 6) // h, f % h]
                             determines f: its digits from h * 6 on, from h to h * 6, and below h
    [(f * 256 + t) // (h * 4), (f * 256 + t) % (h * 4) // 4, t % 4]
                             determines f * 256 + t: below 4 it is what t is there

The quick test behind parallel, vectorize, reorder and the block conditions. It never says yes
wrongly.

Of a number X, X % m // c is the part from place c up to place m, where c divides m. Places that
only a run knows are compared as products: h divides 6 * h, and h + 2 divides 6 * h + 12. That X is
m * (X // m) + c * (X % m // c) + X % c holds for all m = k * c but zero, by which nobody divides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from math import gcd, inf
from typing import Any, NamedTuple

from mlcnb.arith.atoms import Opaque
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Bounds, Quotient, Remainder, Sum, mentions_any
from mlcnb.ir import expr as e

#: an index and how much further a slice that starts there reaches (None: unknown)
Start = tuple[Sum, int | None]
#: a digit of a number X, from place `lower` up to `upper`: X % upper // lower (None: X // lower)
Digit = tuple[int, int | None]
#: a number itself
WHOLE: Digit = (1, None)


def determined(
    starts: Iterable[Start], domain: Collection[e.Var], known: Mapping[e.Var, Bounds]
) -> set[e.Var]:
    """The variables of `domain` whose values follow from the indices; all others count as fixed."""
    solver = _Solver(domain, known)
    for index, width in starts:
        solver.learn(index, width)
    solver.settle()
    return solver.variables


def injective(
    values: Iterable[Sum], domain: Collection[e.Var], known: Mapping[e.Var, Bounds]
) -> bool:
    """True if different values of the domain's variables surely give different indices."""
    found = determined([(v, 0) for v in values], domain, known)
    return all(v in found or _is_single(known.get(v)) for v in domain)


def _is_single(bounds: Bounds | None) -> bool:
    return bounds is not None and bounds[0] is not None and bounds[0] == bounds[1]


class _Solver:
    """Collects what is known: variables, and digits of sums."""

    def __init__(self, domain: Collection[e.Var], known: Mapping[e.Var, Bounds]) -> None:
        self.domain = domain
        self.known = known
        self.variables: set[e.Var] = set()
        #: the sums that have digits, by key
        self.numbers: dict[Any, Sum] = {}
        self.digits: dict[Any, list[Digit]] = {}
        #: those whose places may be sizes that only a run knows
        self.open_digits: dict[Any, list[OpenDigit]] = {}

    def learn(self, index: Sum, width: int | None) -> None:
        """The value of `index` is known up to an unknown 0..width.

        A term is known where its step is larger than all smaller terms together can make up, and
        so are all larger terms.
        """
        if width is None:
            return
        varying = [(abs(c), t) for t, c in index.terms.items() if self._varies(t)]
        varying.sort(key=lambda pair: pair[0])
        reaches: list[int | None] = [width]
        for coefficient, atom in varying:
            span, below = self._span(atom), reaches[-1]
            unknown = span is None or below is None
            reaches.append(None if unknown else below + coefficient * span)  # type: ignore
        for (coefficient, atom), below in zip(varying[::-1], reaches[-2::-1], strict=True):
            if below is None or coefficient <= below:
                return
            self._atom(atom)

    def _varies(self, atom: Any) -> bool:
        alone = isinstance(atom, e.Var) and _is_single(self.known.get(atom))
        return not alone and mentions_any(atom, self.domain)

    def _span(self, atom: Any) -> int | None:
        lo, hi = Sum(0, {atom: 1}).bounds(self.known)
        return None if lo is None or hi is None else hi - lo

    def _atom(self, atom: Any) -> None:
        """The value of `atom` is known."""
        if isinstance(atom, e.Var):
            self.variables.add(atom)
            return
        self._open_digit(atom)
        if isinstance(atom, Quotient | Remainder):
            inner, digit = digit_of(atom)
            self._digit(inner, digit)
            if isinstance(atom, Quotient):
                self.learn(atom.inner, atom.by - 1)
            elif self._variation(atom.inner) < atom.by:
                self.learn(atom.inner, 0)

    def _variation(self, x: Sum) -> float:
        """How far `x` may move while the domain's variables take all their values."""
        spans = [(abs(c), self._span(t)) for t, c in x.terms.items() if self._varies(t)]
        return sum(inf if span is None else c * span for c, span in spans)

    def _open_digit(self, atom: Any) -> None:
        """As `_digit`, for places that need not be known."""
        found = open_digit(atom)
        if found is not None:
            self._put_open(*found)

    def _put_open(self, number: Sum, digit: OpenDigit) -> None:
        self.numbers[number.key] = number
        digits = self.open_digits.setdefault(number.key, [])
        if digit not in digits:
            digits.append(digit)
            if covers(digits):
                self.learn(number, 0)

    def _digit(self, inner: Sum, digit: Digit) -> None:
        self.numbers[inner.key] = inner
        digits = self.digits.setdefault(inner.key, [])
        if digit not in digits:
            digits.append(digit)
            if self._covers(inner, digits):
                self.learn(inner, 0)

    def settle(self) -> None:
        """Find the lowest digits that are written as those of a part of a number, until none is
        new: (f * 256 + t) % 4 is t % 4.
        """
        while any(self._is_new_below(number) for number in [*self.numbers.values()]):
            pass

    def _is_new_below(self, number: Sum) -> bool:
        """True if all below the lowest known place of a number, but 1, is known as of now."""
        digits = self.digits.setdefault(number.key, [])
        opened = self.open_digits.get(number.key, ())
        places = {p.number for p, _ in opened if not p.factors} | {lower for lower, _ in digits}
        place = min((n for n in places if n > 1), default=1)
        if place == 1 or (1, place) in digits:
            return False
        terms = {t: c for t, c in number.terms.items() if c % place}
        if not self._is_known(Sum(number.const % place and number.const, terms), place):
            return False
        self._digit(number, (1, place))
        self._put_open(number, (UNIT, Place(place)))
        return True

    def _is_known(self, x: Sum, place: int) -> bool:
        """True if x % place is known."""
        if all(v in self.variables for v in x.variables() if v in self.domain):
            return True
        digits, reached = self.digits.get(x.key, []), [1]
        for end in reached:  # it grows as we go
            if end % place == 0:
                return True
            ends = [upper for lower, upper in digits if lower == end and upper is not None]
            reached += [upper for upper in ends if upper not in reached]
        return False

    def _covers(self, number: Sum, digits: list[Digit]) -> bool:
        lo, hi = number.bounds(self.known)
        return lo is not None and lo >= 0 and make_up(digits, hi)


def make_up(digits: Collection[Digit], last: float | None) -> bool:
    """True if digits follow each other from 1 up to the largest value of a number (or the end)."""
    place = 1
    while last is None or place <= last:
        ends = [upper for lower, upper in digits if lower == place]
        if None in ends or not ends:
            return bool(ends)
        place = max(end for end in ends if end is not None)
    return True


def digit_of(atom: Quotient | Remainder) -> tuple[Sum, Digit]:
    """X // c is a digit of X, X % c too, and X % m // c, and X // c % m."""
    if isinstance(atom, Remainder):
        quotient = atom.inner.only_atom
        if isinstance(quotient, Quotient):
            return quotient.inner, (quotient.by, quotient.by * atom.by)
        return atom.inner, (1, atom.by)
    inner = atom.inner.only_atom
    if isinstance(inner, Remainder) and inner.by % atom.by == 0:
        return inner.inner, (atom.by, inner.by)
    return atom.inner, (atom.by, None)


def contiguous(
    starts: Iterable[Start], inner: Collection[e.Var], known: Mapping[e.Var, Bounds]
) -> bool:
    """True if slices starting at the indices fill a box without holes while `inner` takes all
    values.
    """
    taken = _Taken(inner, known)
    for index, width in starts:
        if width is None:
            return False
        reach = width
        varying = [
            (abs(c), taken.full_span(t), t)
            for t, c in index.terms.items()
            if mentions_any(t, inner)
        ]
        varying.sort(key=lambda term: (term[0], term[1] is None))
        for coefficient, span, atom in varying:
            if span is None and isinstance(atom, e.Var) and atom is varying[-1][2]:
                span = 0
            if span is None or coefficient > reach + 1 or not taken.take(atom):
                return False
            reach += coefficient * span
    return True


class _Taken:
    """The digits of numbers that have been used: one used twice makes dimensions move together.

    A number is a variable, or a sum that takes every value from 0 on: f, or tx * 4 + lane. Each
    variable is a part of one number only.
    """

    def __init__(self, inner: Collection[e.Var], known: Mapping[e.Var, Bounds]) -> None:
        self.inner = inner
        self.known = known
        self.digits: dict[Any, list[Digit]] = {}
        self.owners: dict[e.Var, Any] = {}

    def full_span(self, atom: Any) -> int | None:
        """How far an atom reaches, if it takes every value between its ends."""
        if not isinstance(atom, e.Var):
            if not isinstance(atom, Quotient | Remainder):
                return None
            number, (_, upper) = digit_of(atom)
            last = self._last(number)
            if last is None or (upper is not None and (last + 1) % upper):
                return None
        lo, hi = Sum(0, {atom: 1}).bounds(self.known)
        return None if lo is None or hi is None else hi - lo

    def _last(self, number: Sum) -> int | None:
        """The largest value of a sum of variables that takes all values from 0 on."""
        plain = all(isinstance(t, e.Var) and c > 0 for t, c in number.terms.items())
        if not plain or number.bounds(self.known)[0] != 0:
            return None
        if number.only_atom is None:
            moving = number.variables() <= set(self.inner)
            if not moving or not contiguous([(number, 0)], self.inner, self.known):
                return None
        return number.bounds(self.known)[1]

    def take(self, atom: Any) -> bool:
        """Mark the digits of `atom` as used; False if they, or a variable, were used before."""
        number, digit = Sum(0, {atom: 1}), WHOLE
        if not isinstance(atom, e.Var):
            number, digit = digit_of(atom)
        key = number.key
        if any(self.owners.setdefault(v, key) != key for v in number.variables()):
            return False
        used = self.digits.setdefault(key, [])
        if any(overlap(digit, other) for other in used):
            return False
        used.append(digit)
        return True


def overlap(a: Digit, b: Digit) -> bool:
    """True if two digits of one number share a place."""
    return (a[1] is None or b[0] < a[1]) and (b[1] is None or a[0] < b[1])


# digits whose places may be sizes that only a run knows


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


UNIT = Place(1)
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
    return inner, (UNIT, by)


def covers(digits: Sequence[OpenDigit]) -> bool:
    """True if the digits follow each other from the first place to the end."""
    place, left = UNIT, list(digits)
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
    rest = size.divided(shared)
    atom = rest.only_atom
    if isinstance(atom, Opaque) and isinstance(atom.node, e.Mul):
        parts = place_of(of(atom.node.a)).by(place_of(of(atom.node.b)))
        return Place(shared).by(parts)
    return Place(shared, frozenset([(rest.key, 1)]))
