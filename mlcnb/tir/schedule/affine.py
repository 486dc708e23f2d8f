"""Index arithmetic in normal form: constant + sum of coefficient * atom.

    i_0 * 4 + i_1 + 3          {i_0: 4, i_1: 1} + 3
    f // 8 * 8 + f % 8         {f: 1}
    (i_0 * 8 + i_1) // 8       {i_0: 1}           where 0 <= i_1 < 8

    atom = a variable | X // c | X % c | min(X, Y) | max(X, Y) | anything else (opaque)

Schedules compare, bound and rebuild thousands of index expressions; this form makes that a matter
of
small dictionaries. `reading.of` reads an expression, `Affine.expr` writes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

Bounds = tuple[int | None, int | None]
UNKNOWN: Bounds = (None, None)


class Affine:
    """constant + sum of coefficient * atom. Never changed once made."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0, terms: dict[Any, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Any, int] = {} if terms is None else terms

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """self + other * factor"""
        if not other.terms:
            return Affine(self.const + other.const * factor, self.terms)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + coefficient * factor
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Affine(self.const + other.const * factor, _recombined(terms))

    def minus(self, other: Affine) -> Affine:
        """self - other"""
        return self.plus(other, -1)

    def times(self, factor: int) -> Affine:
        """self * factor"""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine(self.const * factor, {t: c * factor for t, c in self.terms.items()})

    def shifted(self, by: int) -> Affine:
        """self + by"""
        return Affine(self.const + by, self.terms) if by else self

    def same(self, other: Affine) -> bool:
        """True if both are the same sum."""
        return self.const == other.const and self.terms == other.terms

    @property
    def value(self) -> int | None:
        """The number that this is, None where it is symbolic."""
        return None if self.terms else self.const

    @property
    def only_atom(self) -> Any:
        """The atom A where this is 1 * A + 0, else None."""
        if self.const == 0 and len(self.terms) == 1:
            atom, coefficient = next(iter(self.terms.items()))
            return atom if coefficient == 1 else None
        return None

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
        """Smallest and largest value (inclusive), None where unbounded, given bounds of
        variables.
        """
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


ZERO = Affine()
ONE = Affine(1)


def _negative(term: tuple[Any, int]) -> bool:
    return term[1] < 0


def _as_dtype(term: e.PrimExpr, kind: str) -> e.PrimExpr:
    return term if term.dtype == kind else p.cast(kind, term)


class _Periodic:
    """What X // by and X % by share; equal where their parts are."""

    __slots__ = ("by", "hash", "inner")

    def __init__(self, inner: Affine, by: int) -> None:
        self.inner = inner
        self.by = by
        self.hash = hash((type(self).__name__, by, inner.const, frozenset(inner.terms.items())))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and self.by == other.by  # type: ignore[attr-defined]
            and self.inner.same(other.inner)  # type: ignore[attr-defined]
        )

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return self.inner.variables()


class Quotient(_Periodic):
    """inner // by, rounding towards minus infinity, by > 1."""

    __slots__ = ()

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """See `Affine.bounds`."""
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
        """See `Affine.bounds`."""
        lo, hi = self.inner.bounds(known)
        if lo is not None and hi is not None and lo // self.by == hi // self.by:
            return lo % self.by, hi % self.by
        return 0, self.by - 1

    def expr(self, kind: str) -> e.PrimExpr:
        """As an expression."""
        return e.FloorMod(self.inner.expr(kind), p.const(self.by, kind))


class Extreme:
    """min(a, b) or max(a, b)."""

    __slots__ = ("a", "b", "hash", "is_min")

    def __init__(self, is_min: bool, a: Affine, b: Affine) -> None:
        self.is_min = is_min
        self.a = a
        self.b = b
        parts = (frozenset(a.terms.items()), a.const, frozenset(b.terms.items()), b.const)
        self.hash = hash((is_min, parts))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Extreme)
            and self.is_min == other.is_min
            and self.a.same(other.a)
            and self.b.same(other.b)
        )

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return self.a.variables() | self.b.variables()

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """See `Affine.bounds`: of min(a, b), the larger of the lower ends may be unknown."""
        pairs = self.a.bounds(known), self.b.bounds(known)
        lows = [lo for lo, _ in pairs if lo is not None]
        highs = [hi for _, hi in pairs if hi is not None]
        if self.is_min:
            return (min(lows) if len(lows) == 2 else None), (min(highs) if highs else None)
        return (max(lows) if lows else None), (max(highs) if len(highs) == 2 else None)

    def expr(self, kind: str) -> e.PrimExpr:
        """As an expression."""
        build = p.minimum if self.is_min else p.maximum
        return build(self.a.expr(kind), self.b.expr(kind))


class Opaque:
    """An expression that is not looked into, told apart by structure; `inner` is what a cast
    casts.
    """

    __slots__ = ("inner", "key", "node")

    def __init__(self, node: e.PrimExpr, inner: Affine | None = None) -> None:
        self.node = node
        self.inner = inner
        self.key = structure_key(node)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.key == other.key

    def variables(self) -> set[e.Var]:
        """All variables inside."""
        return variables_of(self.node)

    def bounds(self, known: Mapping[e.Var, Bounds]) -> Bounds:
        """Bounds of a cast integer are those of what is cast; of anything else, unknown."""
        return UNKNOWN if self.inner is None else self.inner.bounds(known)

    def expr(self, kind: str) -> e.PrimExpr:
        """The expression itself."""
        return self.node


def structure_key(n: Any) -> Any:
    """A hashable value, equal for expressions that are the same in structure."""
    if isinstance(n, e.Var):
        return n
    if isinstance(n, e.IntImm | e.FloatImm):
        return (type(n), n.value)
    if isinstance(n, tuple):
        return tuple(map(structure_key, n))
    if isinstance(n, e.PrimExpr):
        return (type(n), *(structure_key(getattr(n, name)) for name in n.child_fields))
    return n


def variables_of(n: Any) -> set[e.Var]:
    """The variables that occur in an expression (buffers are not looked into)."""
    found: set[e.Var] = set()
    _collect_variables(n, found)
    return found


def _collect_variables(n: Any, found: set[e.Var]) -> None:
    if isinstance(n, e.Var):
        found.add(n)
    elif isinstance(n, tuple):
        for item in n:
            _collect_variables(item, found)
    elif isinstance(n, e.PrimExpr):
        for name in n.child_fields:
            value = getattr(n, name)
            if isinstance(value, Node | tuple):
                _collect_variables(value, found)


def _recombined(terms: dict[Any, int]) -> dict[Any, int]:
    """k*c * (X // c) + k * (X % c) put together again as k * X."""
    periodic = [a for a in terms if isinstance(a, _Periodic)]
    if len(periodic) < 2:
        return terms
    for atom in periodic:
        for whole, parts in _joins(atom, terms):
            rest = {t: c for t, c in terms.items() if t not in parts}
            return Affine(0, rest).plus(whole).terms if not whole.const else terms
    return terms


def _joins(atom: Any, terms: dict[Any, int]) -> Iterator[tuple[Affine, tuple[Any, Any]]]:
    """The sums that `atom` is a part of, with the two parts that make them up."""
    k = terms[atom]
    if isinstance(atom, Remainder):
        other = Quotient(atom.inner, atom.by)
        if terms.get(other) == k * atom.by:
            yield atom.inner.times(k), (atom, other)
        for digit in terms:
            if isinstance(digit, Quotient) and digit.by == atom.by:
                inner = digit.inner.only_atom
                if isinstance(inner, Remainder) and inner.by % atom.by == 0:
                    if inner.inner.same(atom.inner) and terms[digit] == k * atom.by:
                        yield Affine(0, {inner: k}), (atom, digit)
    elif isinstance(atom, Quotient):
        inner = atom.inner.only_atom
        if isinstance(inner, Remainder) and inner.by % atom.by == 0:
            top = Quotient(inner.inner, inner.by)
            if terms.get(top) == k * (inner.by // atom.by):
                yield Affine(0, {Quotient(inner.inner, atom.by): k}), (atom, top)
