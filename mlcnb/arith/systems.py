"""Systems of linear conditions over the integers, solved.

solve_linear_equations      x + y == 8, x - y == 2      x = 5, y = 3
                            x + 2 * y == n              x = n - 2 * n0, y = n0, any n0
solve_linear_inequalities   0 <= y <= x < n, y first    0 <= y <= x;  0 <= x <= n - 1;  1 <= n

Equations are solved by unimodular steps (Hermite's), so that the solutions over the integers are
found, all of them, as integer combinations of free variables. Inequalities are solved variable by
variable (Fourier and Motzkin); the bounds of a variable use those after it only. What is left
without a variable in it stays as a condition.
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
from mlcnb.arith.interval import bounds_of
from mlcnb.arith.linear import depends_on
from mlcnb.arith.poly import Poly
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var

#: conditions that elimination may make before it is given up
_MANY = 2000


@dataclass(frozen=True)
class IntConstraints:
    """Variables, what they run over, and conditions that hold for them."""

    variables: tuple[Var, ...]
    ranges: Mapping[Var, Range]
    relations: tuple[PrimExpr, ...]


@dataclass(frozen=True)
class IntConstraintsTransform:
    """A system and its solution: each variable of one as an expression of the other's."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: Mapping[Var, PrimExpr]
    dst_to_src: Mapping[Var, PrimExpr]


@dataclass(frozen=True)
class IntGroupBounds:
    """coef * variable lies between all of `lower` and all of `upper`."""

    coef: int
    lower: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]


def solve_linear_equations(
    equations: Sequence[PrimExpr],
    variables: Sequence[Var],
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of equations, as combinations of free variables.

    Args:
        equations: `a == b`, linear in the variables with constant factors; other variables may
            stand in the constant parts.
        variables: what to solve for.
        ranges: what the variables run over; becomes conditions on the free variables.

    Returns:
        src_to_dst: variable -> expression of the free variables n0, n1, …; dst_to_src: free
        variable -> expression of the variables; dst.relations: what must hold besides, `False`
        where there is no solution.

    Raises:
        MLCError: something is no linear equation with constant factors.
    """
    analyzer = Analyzer()
    kind = variables[0].dtype if variables else p.dtype("int32")
    flat = [part for x in equations for part in flattened(p.as_expr(x), e.And)]
    rows, constants = _matrix(analyzer, flat, variables)
    steps = _Hermite(rows, len(variables))
    values, relations = _triangular(analyzer, steps, constants, kind)
    free = [Var(f"n{n}", kind) for n in range(len(variables) - steps.rank)]
    solved = [*values, *(analyzer.normal_form(v) for v in free)]
    to_new = {
        var: emit(_combined(steps.columns[i], solved), kind) for i, var in enumerate(variables)
    }
    old = [analyzer.normal_form(v) for v in variables]
    back = {
        v: emit(_combined(steps.inverse[steps.rank + n], old), kind) for n, v in enumerate(free)
    }
    inside = [
        condition
        for var, bounds in (ranges or {}).items()
        if var in to_new
        for condition in (bounds.min <= to_new[var], to_new[var] < bounds.min + bounds.extent)
    ]
    source = IntConstraints(tuple(variables), dict(ranges or {}), tuple(flat))
    target = IntConstraints(tuple(free), {}, (*relations, *_open(analyzer, inside)))
    return IntConstraintsTransform(source, target, to_new, back)


def _open(analyzer: Analyzer, conditions: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The conditions in short form, without those that always hold."""
    short = [analyzer.simplify(x) for x in conditions]
    return [x for x in short if not (isinstance(x, e.IntImm) and x.value)]


def _matrix(
    analyzer: Analyzer, equations: Sequence[PrimExpr], variables: Sequence[Var]
) -> tuple[list[list[int]], list[Poly]]:
    """Factors of the variables, and what they add up to, for each equation."""
    rows, constants = [], []
    for equation in equations:
        if not isinstance(equation, e.EQ):
            raise MLCError(f"{equation!r} is no equation")
        form = analyzer.normal_form(equation.a).minus(analyzer.normal_form(equation.b))
        factors, rest = _factors(analyzer, form, variables, equation)
        rows.append(factors)
        constants.append(rest.scaled(-1))
    return rows, constants


def _factors(
    analyzer: Analyzer, form: Poly, variables: Sequence[Var], what: PrimExpr
) -> tuple[list[int], Poly]:
    factors = []
    for var in variables:
        parts = form.coefficient_of(analyzer.context.var(var))
        if parts is None or not parts[0].is_const:
            raise MLCError(f"{what!r} is not linear in {var.name} with a constant factor")
        factors.append(parts[0].const)
        form = parts[1]
    if depends_on(form, set(variables)):
        raise MLCError(f"{what!r} is not linear in {', '.join(v.name for v in variables)}")
    return factors, form


def _combined(factors: Sequence[int], values: Sequence[Poly]) -> Poly:
    total = Poly()
    for factor, value in zip(factors, values, strict=True):
        total = total.plus(value, factor)
    return total


class _Hermite:
    """rows * columns is lower triangular in echelon form; columns and inverse are unimodular.

    `pivots` are the rows with a pivot, in order; the columns after `rank` span the null space.
    """

    def __init__(self, rows: list[list[int]], count: int) -> None:
        self.rows = [list(row) for row in rows]
        self.columns = [[int(i == j) for j in range(count)] for i in range(count)]
        self.inverse = [[int(i == j) for j in range(count)] for i in range(count)]
        self.pivots: list[int] = []
        for at in range(len(self.rows)):
            self._clear(at, count)

    @property
    def rank(self) -> int:
        """The number of independent equations."""
        return len(self.pivots)

    def _clear(self, at: int, count: int) -> None:
        """Column steps (Euclid's) until one entry of the row after the pivots is left."""
        row, here = self.rows[at], self.rank
        while True:
            filled = [j for j in range(here, count) if row[j]]
            if not filled:
                return
            least = min(filled, key=lambda j: abs(row[j]))
            if filled == [least]:
                break
            for j in filled:
                if j != least:
                    self._add(j, least, -(row[j] // row[least]))
        self._swap(here, least)
        self.pivots.append(at)

    def _add(self, to: int, source: int, factor: int) -> None:
        for line in (*self.rows, *self.columns):
            line[to] += factor * line[source]
        for j, value in enumerate(self.inverse[to]):
            self.inverse[source][j] -= factor * value

    def _swap(self, a: int, b: int) -> None:
        for line in (*self.rows, *self.columns):
            line[a], line[b] = line[b], line[a]
        self.inverse[a], self.inverse[b] = self.inverse[b], self.inverse[a]


def _triangular(
    analyzer: Analyzer, steps: _Hermite, constants: list[Poly], kind: Any
) -> tuple[list[Poly], list[PrimExpr]]:
    """Values of the pivots by forward substitution, and the conditions under which there are."""
    values: list[Poly] = []
    relations: list[PrimExpr] = []
    for at, constant in enumerate(constants):
        row = steps.rows[at]
        rest = constant.minus(_combined(row[: len(values)], values))
        if at not in steps.pivots:
            relations.append(p.equal(emit(rest, kind), p.const(0, kind)))
            continue
        factor = row[len(values)]
        whole = emit(rest, kind)
        relations.append(p.equal(p.floormod(whole, p.const(factor, kind)), p.const(0, kind)))
        values.append(analyzer.normal_form(p.floordiv(whole, p.const(factor, kind))))
    return values, _open(analyzer, relations)


def solve_linear_inequalities(
    inequalities: Sequence[PrimExpr],
    variables: Sequence[Var],
    ranges: Mapping[Var, Range] | None = None,
) -> tuple[dict[Var, IntGroupBounds], tuple[PrimExpr, ...]]:
    """Bounds of each variable in terms of those after it, and what must hold besides.

    Args:
        inequalities: comparisons (< <= > >= ==), joined by `and`, linear in the variables with
            constant factors.
        variables: solved in this order: the first may be bounded by all others.
        ranges: what the variables run over.

    Over the rational numbers the bounds are exact; an integer point within them need not exist.

    Raises:
        MLCError: a condition is not linear, or elimination makes too many conditions.
    """
    analyzer = Analyzer()
    flat = [part for x in inequalities for part in flattened(p.as_expr(x), e.And)]
    for var, bounds in (ranges or {}).items():
        flat += [p.less_equal(bounds.min, var), p.less(var, bounds.min + bounds.extent)]
    waiting: list[Poly] = []
    for condition in flat:
        parts = margins(analyzer, condition)
        if parts is None:
            raise MLCError(f"{condition!r} is no comparison of integers")
        for form in parts:
            _factors(analyzer, form, variables, condition)
        waiting += parts
    kind = variables[0].dtype if variables else p.dtype("int32")
    found = {}
    for var in variables:
        found[var], waiting = _eliminated(analyzer, var, waiting, kind)
    left = [p.less_equal(p.const(0, kind), emit(form, kind)) for form in waiting]
    return found, tuple(_open(analyzer, left))


def _eliminated(
    analyzer: Analyzer, var: Var, waiting: list[Poly], kind: Any
) -> tuple[IntGroupBounds, list[Poly]]:
    """The bounds of one variable, and the conditions on the others that follow."""
    atom = analyzer.context.var(var)
    lows: list[tuple[int, Poly]] = []
    highs: list[tuple[int, Poly]] = []
    rest: list[Poly] = []
    for form in waiting:
        parts = form.coefficient_of(atom)
        factor = 0 if parts is None else parts[0].const
        if parts is None or factor == 0:
            rest.append(form)
        elif factor > 0:
            lows.append((factor, parts[1].scaled(-1)))
        else:
            highs.append((-factor, parts[1]))
    common = 1
    for factor, _ in (*lows, *highs):
        common = common * factor // gcd(common, factor)
    for (a, low), (b, high) in product(lows, highs):
        rest.append(high.scaled(a).minus(low.scaled(b)))
    if len(rest) > _MANY:
        raise MLCError(f"eliminating {var.name} makes {len(rest)} conditions")
    known = {form.key: form for form in rest if bounds_of(analyzer.context, form)[0] < 0}
    lower, upper = (
        tuple(emit(form.scaled(common // factor), kind) for factor, form in _distinct(side))
        for side in (lows, highs)
    )
    return IntGroupBounds(common, lower, upper), list(known.values())


def _distinct(side: list[tuple[int, Poly]]) -> list[tuple[int, Poly]]:
    return list({(factor, form.key): (factor, form) for factor, form in side}.values())
