"""Sums of integers in normal form: constant + sum of coefficient * atom.

    i_0 * 4 + i_1 + 3          {i_0: 4, i_1: 1} + 3
    f // 8 * 8 + f % 8         {f: 1}
    n * j * 2                  {n * j: 2}                  a product is an atom

There is one addition, and two ways to read an expression, which differ in what an atom is:

    `reading.of`               quick: a variable | X // c | X % c | min | max | opaque; atoms know
                               their `variables`, `bounds` and `expr`; products are opaque
    `Analyzer.normal_form`     full: `atoms.Atom`, one for each meaning under what an analyzer
                               knows, with products multiplied out; `emission.emit` writes it
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType

Bounds = tuple[int | None, int | None]
UNKNOWN: Bounds = (None, None)


def is_index(dtype: DType) -> bool:
    """True for the dtypes that sums are made of: int32 and int64 scalars, taken not to overflow."""
    return dtype == "int32" or dtype == "int64"


class Sum:
    """constant + sum of coefficient * atom. Never changed once made; terms keep their order."""

    __slots__ = ("_key", "const", "terms")

    def __init__(self, const: int = 0, terms: dict[Any, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Any, int] = {} if terms is None else terms
        self._key: Any = None

    @property
    def key(self) -> Any:
        """Hashable; equal for equal sums."""
        if self._key is None:
            self._key = (self.const, frozenset(self.terms.items()))
        return self._key

    def is_same(self, other: Sum) -> bool:
        """True if both are the same sum."""
        return self.const == other.const and self.terms == other.terms

    # arithmetic

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """self + other * factor"""
        const = self.const + other.const * factor
        if not other.terms:
            return Sum(const, self.terms)
        terms = dict(self.terms)
        has_parts = False
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + coefficient * factor
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
            if type(atom) in _PARTS:
                has_parts = True
        return Sum(const, _recombined(terms) if has_parts else terms)

    def minus(self, other: Sum) -> Sum:
        """self - other"""
        return self.plus(other, -1)

    def shifted(self, by: int) -> Sum:
        """self + by"""
        return Sum(self.const + by, self.terms) if by else self

    def scaled(self, factor: int) -> Sum:
        """self * factor"""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Sum(self.const * factor, {t: c * factor for t, c in self.terms.items()})

    def divided(self, by: int) -> Sum:
        """self // by, where every coefficient is a multiple of it."""
        return Sum(self.const // by, {t: c // by for t, c in self.terms.items()})

    def times(self, other: Sum) -> Sum:
        """self * other, multiplied out."""
        if not other.terms:
            return self.scaled(other.const)
        if not self.terms:
            return other.scaled(self.const)
        terms: dict[Any, int] = {}
        for a, c in self._all():
            for b, d in other._all():
                atom = b if a is None else a if b is None else a.by(b)
                terms[atom] = terms.get(atom, 0) + c * d
        const = terms.pop(None, 0)
        return Sum(const, {t: c for t, c in terms.items() if c})

    def _all(self) -> Iterator[tuple[Any, int]]:
        """Atoms with their coefficients, and None with the constant."""
        yield from self.terms.items()
        if self.const:
            yield None, self.const

    def without(self, atom: Any) -> Sum:
        """The sum but for the term of one of its atoms."""
        return Sum(self.const, {t: c for t, c in self.terms.items() if t is not atom})

    # questions

    @property
    def value(self) -> int | None:
        """The number that this is, None where it is symbolic."""
        return None if self.terms else self.const

    @property
    def is_const(self) -> bool:
        """True for a plain number."""
        return not self.terms

    @property
    def only_atom(self) -> Any:
        """The atom A where this is 1 * A + 0, else None."""
        if self.const == 0 and len(self.terms) == 1:
            atom, coefficient = next(iter(self.terms.items()))
            return atom if coefficient == 1 else None
        return None

    @property
    def is_data(self) -> bool:
        """True if a term depends on values in memory."""
        return any(atom.is_data for atom in self.terms)

    def atoms(self) -> Iterable[Any]:
        """The atoms, and the factors of products, each once, in order."""
        return dict.fromkeys(x for atom in self.terms for x in atom.factors)

    def coefficient_of(self, atom: Any) -> tuple[Sum, Sum] | None:
        """(c, rest) with self = c * atom + rest, neither with the atom in it; None if nonlinear."""
        factor: dict[Any, int] = {}
        rest: dict[Any, int] = {}
        for term, coefficient in self.terms.items():
            others = [x for x in term.factors if x is not atom]
            if len(others) == len(term.factors):
                rest[term] = coefficient
            elif len(others) < len(term.factors) - 1:
                return None
            elif others:
                factor[product_of(others)] = coefficient
        return Sum(self.terms.get(atom, 0), factor), Sum(self.const, rest)

    def variables(self) -> set[e.Var]:
        """All variables, those inside atoms too."""
        found: set[e.Var] = set()
        for atom in self.terms:
            if isinstance(atom, e.Var):
                found.add(atom)
            else:
                found.update(atom.variables())
        return found

    def uses(self, variables: Any) -> bool:
        """True if any of `variables` (a set or dict) occurs."""
        return any(v in variables for v in self.variables())

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """Smallest and largest value (inclusive), None where unbounded; `known`: of variables."""
        low: int | None = self.const
        high: int | None = self.const
        for atom, c in self.terms.items():
            lo, hi = known.get(atom, UNKNOWN) if isinstance(atom, e.Var) else atom.bounds(known)
            if c < 0:
                lo, hi = hi, lo
            low = None if low is None or lo is None else low + c * lo
            high = None if high is None or hi is None else high + c * hi
        return low, high

    def expr(self, kind: str = "int32") -> e.PrimExpr:
        """The sum as an expression of dtype `kind`, positive terms first, folded."""
        total: e.PrimExpr | None = None
        const = self.const
        if const and self.terms and all(c < 0 for c in self.terms.values()):
            total, const = p.const(const, kind), 0
        for atom, coefficient in sorted(self.terms.items(), key=_negative):
            term = atom if isinstance(atom, e.Var) else atom.expr(kind)
            term = _as_dtype(term, kind)
            scaled = p.multiply(term, abs(coefficient))
            if total is None:
                total = scaled if coefficient > 0 else p.multiply(term, coefficient)
            else:
                total = e.Add(total, scaled) if coefficient > 0 else e.Sub(total, scaled)
        if total is None:
            return p.const(const, kind)
        if const:
            number = p.const(abs(const), kind)
            total = e.Add(total, number) if const > 0 else e.Sub(total, number)
        return total

    def __repr__(self) -> str:
        shown = [f"{c}*{getattr(t, 'name', t)}" for t, c in self.terms.items()]
        return " + ".join([*shown, str(self.const)])


ZERO = Sum()
ONE = Sum(1)


def _negative(term: tuple[Any, int]) -> bool:
    return term[1] < 0


def _as_dtype(term: e.PrimExpr, kind: str) -> e.PrimExpr:
    return term if term.dtype == kind else p.cast(kind, term)


class Atom:
    """What `Analyzer.normal_form` does not take apart; one for each meaning (`Context.atom`).

    Atom = var                      a variable
         | split (x; lower, upper)  x % upper // lower     (no upper: x // lower)
         | floordiv (x; d), floormod (x; d)                d symbolic
         | min (0; d1, d2 …)        the smallest of them
         | product (atoms)          of two or more, in the order of their serial numbers
         | opaque                   anything else: a load, a call, a cast

    is_data: it depends on values in memory, where integers may wrap around; index arithmetic is
    assumed not to overflow.
    """

    __slots__ = ("args", "expr", "is_data", "kind", "products", "serial")

    def __init__(self, serial: int, kind: str, args: tuple, expr: Any, is_data: bool) -> None:
        self.serial = serial
        self.kind = kind
        self.args = args
        self.expr: e.PrimExpr | None = expr
        self.is_data = is_data
        self.products: dict[Atom, Atom] = {}

    @property
    def factors(self) -> tuple[Atom, ...]:
        """What it is a product of: itself, if it is none."""
        return self.args if self.kind == "product" else (self,)

    def by(self, other: Atom) -> Atom:
        """The product of both."""
        low, high = (self, other) if self.serial <= other.serial else (other, self)
        if low.kind != "product" != high.kind:
            return low._then(high)
        return product_of((*self.factors, *other.factors))

    def _then(self, last: Atom) -> Atom:
        """The product with an atom that comes after its factors."""
        found = self.products.get(last)
        if found is None:
            args, is_data = (*self.factors, last), self.is_data or last.is_data
            found = self.products[last] = Atom(last.serial, "product", args, None, is_data)
        return found

    def __repr__(self) -> str:
        return f"Atom({self.serial}, {self.kind})"


def product_of(factors: Iterable[Atom]) -> Atom:
    """The one atom that is the product of some others."""
    return reduce(Atom._then, sorted(factors, key=_serial))


def _serial(atom: Atom) -> int:
    return atom.serial


# parts of sums by numbers: digits


class _Periodic:
    """What X // by and X % by share; equal where their parts are."""

    __slots__ = ("by", "hash", "inner")

    def __init__(self, inner: Sum, by: int) -> None:
        self.inner = inner
        self.by = by
        self.hash = hash((type(self).__name__, by, inner.key))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and self.by == other.by  # type: ignore[attr-defined]
            and self.inner.is_same(other.inner)  # type: ignore[attr-defined]
        )

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return self.inner.variables()


class Quotient(_Periodic):
    """inner // by, rounding towards minus infinity, by > 1."""

    __slots__ = ()

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """See `Sum.bounds`."""
        lo, hi = self.inner.bounds(known)
        return (
            None if lo is None else lo // self.by,
            None if hi is None else hi // self.by,
        )

    def expr(self, kind: str) -> e.PrimExpr:
        """As an expression."""
        return e.FloorDiv(self.inner.expr(kind), p.const(self.by, kind))


class Remainder(_Periodic):
    """inner % by, in 0..by, by > 1."""

    __slots__ = ()

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """See `Sum.bounds`."""
        lo, hi = self.inner.bounds(known)
        if lo is not None and hi is not None and lo // self.by == hi // self.by:
            return lo % self.by, hi % self.by
        return 0, self.by - 1

    def expr(self, kind: str) -> e.PrimExpr:
        """As an expression."""
        return e.FloorMod(self.inner.expr(kind), p.const(self.by, kind))


_PARTS = frozenset([Quotient, Remainder])


def _recombined(terms: dict[Any, int]) -> dict[Any, int]:
    """k*c * (X // c) + k * (X % c) put together again as k * X."""
    periodic = [a for a in terms if type(a) in _PARTS]
    if len(periodic) < 2:
        return terms
    for atom in periodic:
        for whole, parts in _joins(atom, terms):
            rest = {t: c for t, c in terms.items() if t not in parts}
            return Sum(0, rest).plus(whole).terms if not whole.const else terms
    return terms


def mentions_any(atom: Any, variables: Container[e.Var]) -> bool:
    """Whether one of the variables stands in an atom of a sum."""
    if isinstance(atom, e.Var):
        return atom in variables
    return any(v in variables for v in atom.variables())


def _joins(atom: Any, terms: dict[Any, int]) -> Iterator[tuple[Sum, tuple[Any, Any]]]:
    """The sums that `atom` is a part of, with the two parts that make them up."""
    k = terms[atom]
    if isinstance(atom, Remainder):
        other = Quotient(atom.inner, atom.by)
        if terms.get(other) == k * atom.by:
            yield atom.inner.scaled(k), (atom, other)
        for digit in terms:
            if isinstance(digit, Quotient) and digit.by == atom.by:
                inner = digit.inner.only_atom
                if isinstance(inner, Remainder) and inner.by % atom.by == 0:
                    if inner.inner.is_same(atom.inner) and terms[digit] == k * atom.by:
                        yield Sum(0, {inner: k}), (atom, digit)
    elif isinstance(atom, Quotient):
        inner = atom.inner.only_atom
        if isinstance(inner, Remainder) and inner.by % atom.by == 0:
            top = Quotient(inner.inner, inner.by)
            if terms.get(top) == k * (inner.by // atom.by):
                yield Sum(0, {Quotient(inner.inner, atom.by): k}), (atom, top)
