"""The normal form of integer expressions: polynomials over atoms.

    i * 4 + n * j + 3      ->   {(i,): 4, (n, j): 1} + 3

    Atom = var                      a variable
         | split (x; lower, upper)  x % upper // lower     (no upper: x // lower)
         | floordiv (x; d), floormod (x; d)                d symbolic
         | min (0; d1, d2 …)        the smallest of them
         | opaque                   anything else: a load, a call, a cast

Atoms are made once for each meaning (`Context.atom`), so polynomials compare by identity of atoms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlcnb.ir.expr import PrimExpr

Monomial = tuple["Atom", ...]


class Atom:
    """What is not taken apart further. `args` are the polynomials and numbers it is made of.

    is_data: it depends on values in memory, where integers may wrap around; index arithmetic is
    assumed not to overflow.
    """

    __slots__ = ("args", "expr", "is_data", "kind", "serial")

    def __init__(self, serial: int, kind: str, args: tuple, expr: Any, is_data: bool) -> None:
        self.serial = serial
        self.kind = kind
        self.args = args
        self.expr: PrimExpr | None = expr
        self.is_data = is_data

    def __repr__(self) -> str:
        return f"Atom({self.serial}, {self.kind})"


class Poly:
    """const + sum of coefficient * product of atoms; never changed, and terms keep their order."""

    __slots__ = ("_key", "const", "terms")

    def __init__(self, const: int = 0, terms: dict[Monomial, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Monomial, int] = {} if terms is None else terms
        self._key: Any = None

    @property
    def key(self) -> Any:
        """Hashable; equal for equal polynomials."""
        if self._key is None:
            self._key = (self.const, frozenset(self.terms.items()))
        return self._key

    @property
    def is_const(self) -> bool:
        """True for a plain number."""
        return not self.terms

    @property
    def is_data(self) -> bool:
        """True if a term depends on values in memory."""
        return any(atom.is_data for monomial in self.terms for atom in monomial)

    def is_same(self, other: Poly) -> bool:
        """True if both are the same polynomial."""
        return self.const == other.const and self.terms == other.terms

    def plus(self, other: Poly, factor: int = 1) -> Poly:
        """self + other * factor"""
        if not other.terms:
            return Poly(self.const + other.const * factor, self.terms)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, 0) + coefficient * factor
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return Poly(self.const + other.const * factor, terms)

    def minus(self, other: Poly) -> Poly:
        """self - other"""
        return self.plus(other, -1)

    def shifted(self, by: int) -> Poly:
        """self + by"""
        return Poly(self.const + by, self.terms)

    def scaled(self, factor: int) -> Poly:
        """self * factor"""
        if factor == 0:
            return Poly()
        if factor == 1:
            return self
        return Poly(self.const * factor, {m: c * factor for m, c in self.terms.items()})

    def divided(self, by: int) -> Poly:
        """self / by, where every coefficient is a multiple of it."""
        return Poly(self.const // by, {m: c // by for m, c in self.terms.items()})

    def times(self, other: Poly) -> Poly:
        """self * other, multiplied out."""
        if not other.terms:
            return self.scaled(other.const)
        if not self.terms:
            return other.scaled(self.const)
        terms: dict[Monomial, int] = {}
        for m1, c1 in self._all():
            for m2, c2 in other._all():
                monomial = product(m1, m2)
                terms[monomial] = terms.get(monomial, 0) + c1 * c2
        const = terms.pop((), 0)
        return Poly(const, {m: c for m, c in terms.items() if c})

    def _all(self) -> Iterator[tuple[Monomial, int]]:
        yield from self.terms.items()
        if self.const:
            yield (), self.const

    def atoms(self) -> Iterable[Atom]:
        """The atoms, each once, in order."""
        return dict.fromkeys(atom for monomial in self.terms for atom in monomial)

    def single_atom(self) -> Atom | None:
        """The atom that this is, if it is 1 * atom + 0."""
        if self.const or len(self.terms) != 1:
            return None
        (monomial, coefficient), *_ = self.terms.items()
        return monomial[0] if coefficient == 1 and len(monomial) == 1 else None

    def coefficient_of(self, atom: Atom) -> tuple[Poly, Poly] | None:
        """(c, rest) with self = c * atom + rest, neither with the atom in it; None if nonlinear."""
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        constant = 0
        for monomial, coefficient in self.terms.items():
            count = monomial.count(atom)
            if count == 0:
                rest[monomial] = coefficient
            elif count > 1:
                return None
            elif len(monomial) == 1:
                constant = coefficient
            else:
                factor[tuple(a for a in monomial if a is not atom)] = coefficient
        return Poly(constant, factor), Poly(self.const, rest)


def product(m1: Monomial, m2: Monomial) -> Monomial:
    """The product of two monomials, atoms in order of their serial numbers."""
    return tuple(sorted(m1 + m2, key=_serial))


def _serial(atom: Atom) -> int:
    return atom.serial


def is_before(a: Poly, b: Poly) -> bool:
    """A total order that does not change when both are shifted by the same amount."""
    difference = b.minus(a)
    if not difference.terms:
        return difference.const > 0
    leading = min(difference.terms, key=lambda m: tuple(map(_serial, m)))
    return difference.terms[leading] > 0


ZERO = Poly()
