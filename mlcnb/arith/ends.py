"""The ends of a sum in normal form while variables run: `i * 4 + j` with j in 0..4 lies between
`i * 4` and `i * 4 + 3`.

Ends are sums of the variables that do not run; None where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from mlcnb.arith import division, extrema
from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.interval import atom_bounds, bounds_of
from mlcnb.arith.linear import atom_depends, depends_on
from mlcnb.arith.sum import Atom, Sum, product_of
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Range, Var

#: both ends, included; None: no end
Ends = tuple[Sum | None, Sum | None]

#: an interval this wide says nothing: the range of a dtype
_UNKNOWN = 1 << 31


def ends_of(analyzer: Analyzer, x: Sum, domains: Mapping[Var, Range]) -> Ends:
    """`set_of`, in normal form."""
    quick = _between_numbers(x, domains)
    if quick is not None:
        return quick
    low: Sum | None = x
    high: Sum | None = x
    for var, domain in reversed(list(domains.items())):
        first = analyzer.normal_form(domain.min)
        last = first.plus(analyzer.normal_form(domain.extent)).shifted(-1)
        runner = _Runner(analyzer, var, first, last)
        if low is high:
            low, high = (None, None) if low is None else runner.ends(low)
        else:
            low = None if low is None else runner.ends(low)[0]
            high = None if high is None else runner.ends(high)[1]
    return low, high


def _between_numbers(x: Sum, domains: Mapping[Var, Range]) -> tuple[Sum, Sum] | None:
    """The ends of a sum of variables that run between numbers or stand still; None: it is none."""
    low, high, rest = x.const, x.const, {}
    for atom, factor in x.terms.items():
        if atom.kind != "var":
            return None
        domain = domains.get(atom.expr)
        if domain is None:
            rest[atom] = factor
            continue
        first, extent = p.as_int(domain.min), p.as_int(domain.extent)
        if first is None or extent is None:
            return None
        last = first + extent - 1
        low += factor * (first if factor > 0 else last)
        high += factor * (last if factor > 0 else first)
    return (x, x) if len(rest) == len(x.terms) else (Sum(low, rest), Sum(high, rest))


def union(sets: Sequence[Ends], analyzer: Analyzer, dtype: DType) -> Ends:
    """The smallest interval that holds all of them."""
    ctx = analyzer.context
    low, high = sets[0]
    for first, last in sets[1:]:
        if first is low and last is high:
            continue
        low = None if low is None or first is None else extrema.minimum(ctx, low, first, dtype)
        high = None if high is None or last is None else extrema.maximum(ctx, high, last, dtype)
    return low, high


class _Runner:
    """Ends of polynomials while one variable runs from first to last."""

    def __init__(self, analyzer: Analyzer, var: Var, first: Sum, last: Sum) -> None:
        self.ctx = analyzer.context
        self.variables = (var,)
        self.atom = self.ctx.var(var)
        self.first = first
        self.last = last

    def depends(self, atom: Atom) -> bool:
        """True if the value of an atom changes with the variable."""
        return atom is self.atom or atom_depends(atom, self.variables)

    def changes(self, x: Sum) -> bool:
        """True if the value of a polynomial changes with the variable."""
        return depends_on(x, self.variables)

    def ends(self, x: Sum) -> Ends:
        """The ends of `x`, free of the variable."""
        if not self.changes(x):
            return x, x
        for atom, factor in x.terms.items():
            if atom.kind == "min" and self.depends(atom):
                return self.by_cases(x, atom, factor)
        low: Sum | None = Sum(x.const)
        high: Sum | None = Sum(x.const)
        for atom, factor in x.terms.items():
            first, last = self.term(atom)
            if factor < 0:
                first, last = last, first
            low = None if low is None or first is None else low.plus(first, factor)
            high = None if high is None or last is None else high.plus(last, factor)
        return self.tidy(low), self.tidy(high)

    def tidy(self, x: Sum | None) -> Sum | None:
        return None if x is None else division.recombine(self.ctx, x)

    def by_cases(self, x: Sum, atom: Atom, factor: int) -> Ends:
        """rest + k * min(…): the min is one of its arguments."""
        rest = x.without(atom)
        each = [self.ends(rest.plus(arg, factor)) for arg in atom.args]
        pick = extrema.minimum if factor > 0 else extrema.maximum
        lows = [low for low, _ in each if low is not None]
        highs = [high for _, high in each if high is not None]
        enough = (len(each), 1) if factor > 0 else (1, len(each))
        return (
            self.fold(pick, lows) if len(lows) >= enough[0] else None,
            self.fold(pick, highs) if len(highs) >= enough[1] else None,
        )

    def fold(self, pick: Any, each: list[Sum]) -> Sum:
        result = each[0]
        for x in each[1:]:
            result = pick(self.ctx, result, x, p.dtype("int64"))
        return result

    def term(self, atom: Atom) -> Ends:
        """Ends of a product: one factor runs, the sign of the others must be known."""
        running = [x for x in atom.factors if self.depends(x)]
        fixed = [x for x in atom.factors if not self.depends(x)]
        if not running:
            same = Sum(0, {atom: 1})
            return same, same
        if len(running) > 1:
            return self.constant(atom_bounds(self.ctx, atom))
        first, last = self.atom_ends(running[0])
        if not fixed:
            return first, last
        others = product_of(fixed)
        low, high = atom_bounds(self.ctx, others)
        if low < 0 < high:
            return None, None
        factor = Sum(0, {others: 1})
        ends = [None if x is None else x.times(factor) for x in (first, last)]
        return (ends[0], ends[1]) if low >= 0 else (ends[1], ends[0])

    def constant(self, bounds: tuple[float, float]) -> Ends:
        low, high = bounds
        if high - low >= _UNKNOWN:
            return None, None
        return None if low == -inf else Sum(int(low)), None if high == inf else Sum(int(high))

    def atom_ends(self, atom: Atom) -> Ends:
        """Ends of one atom that depends on the variable."""
        if atom is self.atom:
            return self.first, self.last
        if atom.kind == "split":
            return self.split_ends(*atom.args)
        if atom.kind in ("floordiv", "floormod"):
            return self.division_ends(atom)
        if atom.kind == "cases":
            return self.case_ends(atom)
        return self.constant(atom_bounds(self.ctx, atom))

    def split_ends(self, inner: Sum, lower: int, upper: int | None) -> Ends:
        low, high = self.ends(inner)
        if upper is None:
            return self.divided(low, lower), self.divided(high, lower)
        if low is not None and high is not None:
            first, last = self.divided(low, upper), self.divided(high, upper)
            if first is not None and last is not None and first.is_same(last):
                ends = [division.remainder(self.ctx, x, upper) for x in (low, high)]
                return self.divided(ends[0], lower), self.divided(ends[1], lower)
        return Sum(0), Sum((upper - 1) // lower)

    def divided(self, x: Sum | None, by: int) -> Sum | None:
        return None if x is None else division.divide(self.ctx, x, by)

    def division_ends(self, atom: Atom) -> Ends:
        inner, by = atom.args
        if self.changes(by) or bounds_of(self.ctx, by)[0] < 1:
            return self.constant(atom_bounds(self.ctx, atom))
        if atom.kind == "floormod":
            return Sum(0), by.shifted(-1)
        low, high = self.ends(inner)
        kind = p.dtype("int64")
        return (
            None if low is None else division.floordiv(self.ctx, low, by, kind),
            None if high is None else division.floordiv(self.ctx, high, by, kind),
        )

    def case_ends(self, atom: Atom) -> Ends:
        each = [self.ends(x) for x in atom.args]
        lows = [low for low, _ in each if low is not None]
        highs = [high for _, high in each if high is not None]
        return (
            self.fold(extrema.minimum, lows) if len(lows) == len(each) else None,
            self.fold(extrema.maximum, highs) if len(highs) == len(each) else None,
        )
