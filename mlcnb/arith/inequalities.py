"""Systems of linear inequalities over the integers, solved.

0 <= y <= x < n, y first     bounds      0 <= y <= x;  0 <= x <= n - 1;  1 <= n
x + y <= 20, x - y >= 10     ranges      y + 10 <= x < y + 21, 0 <= y < 6, and x <= 20 - y
                             deskewed    x = x' + (y' + 10), y = y', and y' * 2 + x' <= 10

Solved variable by variable (Fourier and Motzkin); the bounds of a variable use those after it only.
What is left without a variable in it, and what is not linear, stays as a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.deduce import margins
from mlcnb.arith.emission import emit
from mlcnb.arith.forms import flattened
from mlcnb.arith.int_set import set_of
from mlcnb.arith.interval import bounds_of
from mlcnb.arith.sum import Sum
from mlcnb.arith.systems import NO_SOLUTION, IntConstraints, IntConstraintsTransform, substituted
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var

#: conditions that elimination may make before it is given up
_MANY = 2000

Ranges = Mapping[Var, Range]


@dataclass(frozen=True)
class IntGroupBounds:
    """coef * variable is all of `equal`, and lies between all of `lower` and all of `upper`."""

    coef: int
    lower: tuple[PrimExpr, ...]
    equal: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]


def solve_linear_inequalities(
    equations: Sequence[PrimExpr],
    variables: Sequence[Var] = (),
    ranges: Ranges | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """A range for each variable in terms of those after it, and what must hold besides.

    Args:
        equations: comparisons (< <= > >= ==), joined by `and`.
        variables: solved in this order: the first may be bounded by all others.
        ranges: what the variables run over.
        deskew_range: give new variables that run from 0 instead.

    Returns:
        The variables with their ranges and what the ranges do not say; with `deskew_range` the
        transformation to and from the new variables. `False` is the only relation where there is
        no solution.

    Raises:
        MLCError: something is no comparison of integers, or elimination makes too many conditions.
    """
    source = IntConstraints(tuple(variables), dict(ranges or {}), tuple(map(p.as_expr, equations)))
    solved = _Solved(source)
    return solved.deskewed() if deskew_range else solved.in_ranges()


def solve_inequalities_as_condition(
    variables: Sequence[Var], ranges: Ranges, inequalities: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """The solved system as conditions: bounds of the first variable first."""
    return _Solved(
        IntConstraints(tuple(variables), ranges, tuple(map(p.as_expr, inequalities)))
    ).conditions()


def inequality_bounds(
    inequalities: Sequence[PrimExpr], variables: Sequence[Var], ranges: Ranges | None = None
) -> tuple[dict[Var, IntGroupBounds], tuple[PrimExpr, ...]]:
    """Bounds of each variable in terms of those after it, and what must hold besides.

    Arguments as for `solve_linear_inequalities`. Over the rational numbers the bounds are exact; an
    integer point within them need not exist.
    """
    analyzer = Analyzer(dict(ranges or {}))
    flat = [part for x in inequalities for part in flattened(p.as_expr(x), e.And)]
    for var, bounds in (ranges or {}).items():
        flat += [p.less_equal(bounds.min, var), p.less(var, bounds.min + bounds.extent)]
    waiting: list[Sum] = []
    plain = Analyzer()
    for condition in flat:
        parts = [] if p.is_const(condition, 1) else margins(plain, condition)
        if parts is None:
            raise MLCError(f"{condition!r} is no comparison of integers")
        waiting += map(_tightened, parts)
    kind = variables[0].dtype if variables else p.dtype("int32")
    found = {}
    for var in variables:
        found[var], waiting = _eliminated(plain, analyzer, var, waiting, kind)
    zero = p.const(0, kind)
    left = [p.less_equal(emit(form.scaled(-1), kind), zero) for form in waiting]
    return found, tuple(left)


def _tightened(form: Sum) -> Sum:
    """`form >= 0` divided by what its factors have in common; the constant is rounded down."""
    common = gcd(*form.terms.values())
    if common < 2:
        return form
    return form.divided(common)


def _eliminated(
    analyzer: Analyzer, ranged: Analyzer, var: Var, waiting: list[Sum], kind: Any
) -> tuple[IntGroupBounds, list[Sum]]:
    """The bounds of one variable, and the conditions on the others that follow."""
    atom = analyzer.context.var(var)
    lows: list[tuple[int, Sum]] = []
    highs: list[tuple[int, Sum]] = []
    rest: list[Sum] = []
    for form in waiting:
        parts = form.coefficient_of(atom)
        factor = parts[0].const if parts is not None and parts[0].is_const else 0
        if parts is None or factor == 0:
            rest.append(form)
        elif factor > 0:
            lows.append((factor, parts[1].scaled(-1)))
        else:
            highs.append((-factor, parts[1]))
    for (a, low), (b, high) in product(lows, highs):
        rest.append(_tightened(high.scaled(a).minus(low.scaled(b))))
    if len(rest) > _MANY:
        raise MLCError(f"eliminating {var.name} makes {len(rest)} conditions")
    known = {form.key: form for form in rest if bounds_of(analyzer.context, form)[0] < 0}
    return _grouped(ranged, lows, highs, kind), list(known.values())


def _grouped(
    ranged: Analyzer, lows: list[tuple[int, Sum]], highs: list[tuple[int, Sum]], kind: Any
) -> IntGroupBounds:
    """Bounds with one factor; those that say less than another are left out."""
    common = 1
    for factor, _ in (*lows, *highs):
        common = common * factor // gcd(common, factor)
    lower, upper = (
        {f.key: f for f in (form.scaled(common // factor) for factor, form in side)}
        for side in (lows, highs)
    )
    equal = [lower[key] for key in lower if key in upper]
    lower, upper = (
        {key: form for key, form in side.items() if all(key != x.key for x in equal)}
        for side in (lower, upper)
    )
    sides = (
        _strongest(ranged, list(lower.values()), 1, kind),
        sorted(equal, key=lambda form: len(form.terms)),
        _strongest(ranged, list(upper.values()), -1, kind),
    )
    return IntGroupBounds(common, *(tuple(emit(x, kind) for x in side) for side in sides))


def _strongest(ranged: Analyzer, forms: list[Sum], sign: int, kind: Any) -> list[Sum]:
    """Without the bounds that another one is at least as strong as."""

    def says_no_more(form: Sum, other: Sum) -> bool:
        return ranged.const_bounds(emit(other.minus(form).scaled(sign), kind))[0] >= 0

    kept: list[Sum] = []
    for form in forms:
        if not any(says_no_more(form, other) for other in kept):
            kept = [x for x in kept if not says_no_more(x, form)]
            kept.append(form)
    return kept


class _Solved:
    """A system with the bounds of its variables."""

    def __init__(self, source: IntConstraints) -> None:
        self.source = source
        self.bounds, self.rest = inequality_bounds(
            source.relations, source.variables, source.ranges
        )

    def conditions(self) -> list[PrimExpr]:
        """The system as comparisons."""
        found: list[PrimExpr] = []
        for var, bounds in self.bounds.items():
            middle = var * bounds.coef if bounds.coef != 1 else var
            found += [p.equal(middle, x) for x in bounds.equal]
            found += [p.greater_equal(middle, x) for x in bounds.lower]
            found += [p.less_equal(middle, x) for x in bounds.upper]
        return [*found, *self.rest]

    def is_impossible(self, ranges: Ranges) -> bool:
        """True if there surely is no solution."""
        if any(p.is_const(x, 0) for x in self.rest):
            return True
        return any(
            (p.as_int(x.extent) or 1) < 0 or p.is_const(x.extent, 0) for x in ranges.values()
        )

    def open(self, ranges: Ranges, values: Mapping[Var, PrimExpr]) -> tuple[PrimExpr, ...]:
        """The conditions that ranges do not say already, written in `values`."""
        analyzer = Analyzer(dict(ranges))
        written = [substituted(x, values) for x in self.conditions()]
        left = [x for x in written if not analyzer.can_prove(x)]
        return tuple(map(Analyzer().simplify, left)) if values else tuple(left)

    def in_ranges(self) -> IntConstraints:
        """A range for each variable that has one, and what remains to be said."""
        ranges = self.outer_ranges()
        found: dict[Var, Range] = {}
        for var in reversed(self.source.variables):
            best = _best_range(self.bounds[var], ranges, {})
            if best is not None:
                ranges[var] = found[var] = best
        if self.is_impossible(found):
            return NO_SOLUTION
        return IntConstraints(self.source.variables, found, self.open(ranges, {}))

    def outer_ranges(self) -> dict[Var, Range]:
        """Ranges of what is not solved for."""
        own = set(self.source.variables)
        return {var: bounds for var, bounds in self.source.ranges.items() if var not in own}

    def deskewed(self) -> IntConstraintsTransform:
        """New variables that run from 0."""
        ranges = self.outer_ranges()
        new: dict[Var, Range | None] = {}
        to_new: dict[Var, PrimExpr] = {}
        back: dict[Var, PrimExpr] = {}
        for var in reversed(self.source.variables):
            best = _best_range(self.bounds[var], ranges, to_new)
            if best is None:
                new[var], to_new[var], back[var] = None, var, var
            elif p.is_const(best.extent, 1):
                to_new[var] = best.min
            else:
                shifted = Var(f"{var.name}_shifted", var.dtype)
                ranges[shifted] = new[shifted] = Range(p.const(0, var.dtype), best.extent)
                to_new[var] = shifted + best.min
                back[shifted] = Analyzer().simplify(var - substituted(best.min, back))
        named = {var: bounds for var, bounds in new.items() if bounds is not None}
        if self.is_impossible(named):
            return IntConstraintsTransform(self.source, NO_SOLUTION, {}, {})
        target = IntConstraints(tuple(reversed(new)), named, self.open(ranges, to_new))
        return IntConstraintsTransform(self.source, target, to_new, back)


def _best_range(
    bounds: IntGroupBounds, ranges: Ranges, values: Mapping[Var, PrimExpr]
) -> Range | None:
    """The shortest range that a lower and an upper bound make; None where none has a length."""
    analyzer = Analyzer(dict(ranges))
    lower, equal, upper = (
        [analyzer.simplify(substituted(x, values)) for x in side]
        for side in (bounds.lower, bounds.equal, bounds.upper)
    )
    if equal and bounds.coef == 1:
        return Range(equal[0], p.const(1, equal[0].dtype))
    best: tuple[PrimExpr, PrimExpr] | None = None
    for low, high in product((*lower, *equal), (*upper, *equal)):
        extent = _extent(analyzer, high - low, bounds.coef, ranges)
        if extent is None:
            continue
        if best is None or analyzer.can_prove(p.less(extent, best[1])):
            best = analyzer.simplify(p.ceildiv(low, bounds.coef)), extent
    return None if best is None else Range(*best)


def _extent(analyzer: Analyzer, width: PrimExpr, coef: int, ranges: Ranges) -> PrimExpr | None:
    """How many multiples of `coef` there are at most in a width of bounds."""
    if any(
        not isinstance(n, Var | e.IntImm | e.Add | e.Sub | e.Mul | e.FloorDiv | e.FloorMod)
        for n in walk(width)
    ):
        return None
    high = set_of(width, ranges).high
    return None if high is None else analyzer.simplify(p.floordiv(high, coef) + 1)
