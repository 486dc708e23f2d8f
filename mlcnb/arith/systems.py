"""Systems of linear equations over the integers, solved.

solve_linear_equations      x + y == 8, x - y == 2      x = 5, y = 3
                            x + 2 * y == n              x = n + 2 * n0, y = -n0, any n0

Equations are solved by unimodular steps (Hermite's), so that the solutions over the integers are
found, all of them, as integer combinations of free variables. Inequalities: `inequalities`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.emission import emit
from mlcnb.arith.forms import flattened
from mlcnb.arith.int_set import set_of
from mlcnb.arith.linear import depends_on
from mlcnb.arith.sum import Sum
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Called, node, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var


@node
class IntConstraints(Called):
    """Variables, what they run over, and conditions that hold for them."""

    variables: tuple[Var, ...]
    ranges: Mapping[Var, Range]
    relations: tuple[PrimExpr, ...]


@node
class IntConstraintsTransform(Called):
    """A system and its solution: each variable of one as an expression of the other's."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: Mapping[Var, PrimExpr]
    dst_to_src: Mapping[Var, PrimExpr]


#: a system that nothing solves
NO_SOLUTION = IntConstraints((), {}, (p.const(False),))


def solve_linear_equations(
    equations: Sequence[PrimExpr],
    variables: Sequence[Var] = (),
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of equations, as combinations of free variables.

    Args:
        equations: `a == b`, linear in the variables with constant factors; other variables may
            stand in the constant parts. Comparisons of another kind are kept as conditions.
        variables: what to solve for.
        ranges: what the variables run over; becomes ranges of and conditions on the free
            variables.

    Returns:
        src_to_dst: variable -> expression of the free variables n0, n1, …; dst_to_src: free
        variable -> expression of the variables; dst.relations: what must hold besides, `False`
        (and no variables) where there is no solution.

    Raises:
        MLCError: an equation is not linear with constant factors.
    """
    flat = tuple(part for x in equations for part in flattened(p.as_expr(x), e.And))
    source = IntConstraints(tuple(variables), dict(ranges or {}), flat)
    if not variables:
        return IntConstraintsTransform(source, source, {}, {})
    analyzer, kind = Analyzer(), variables[0].dtype
    rows, constants = _matrix(analyzer, [x for x in flat if isinstance(x, e.EQ)], variables)
    steps = _Hermite(rows, len(variables))
    values, relations = _triangular(analyzer, steps, constants, kind)
    if any(p.is_const(x, 0) for x in relations):
        return IntConstraintsTransform(source, NO_SOLUTION, {}, {})
    free = [Var(f"n{n}", kind) for n in range(len(variables) - steps.rank)]
    solved = [*values, *(analyzer.normal_form(v) for v in free)]
    to_new = {
        var: emit(_combined(steps.columns[i], solved), kind) for i, var in enumerate(variables)
    }
    old = [analyzer.normal_form(v) for v in variables]
    back = {
        v: emit(_combined(steps.inverse[steps.rank + n], old), kind) for n, v in enumerate(free)
    }
    found = {v: _range_of(analyzer, back[v], ranges or {}) for v in free}
    known = {v: bounds for v, bounds in found.items() if bounds is not None}
    inside = [
        condition
        for var, bounds in (ranges or {}).items()
        if var in to_new
        for condition in (bounds.min <= to_new[var], to_new[var] < bounds.min + bounds.extent)
    ]
    others = [substituted(x, to_new) for x in flat if not isinstance(x, e.EQ)]
    with analyzer.scope(known):
        open_ = _open(analyzer, [*others, *inside])
    target = IntConstraints(tuple(free), known, (*relations, *open_))
    return IntConstraintsTransform(source, target, to_new, back)


def substituted(x: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    """`x` with expressions in the place of variables."""
    return rewrite(x, lambda n: values.get(n) if isinstance(n, Var) else None) if values else x


def _range_of(analyzer: Analyzer, x: PrimExpr, ranges: Mapping[Var, Range]) -> Range | None:
    """What an expression takes while all its variables run over their ranges, if they have any."""
    if any(isinstance(n, Var) and n not in ranges for n in walk(x)):
        return None
    ends = set_of(x, ranges)
    if ends.low is None or ends.high is None:
        return None
    return Range(ends.low, analyzer.simplify(ends.high - ends.low + 1))


def _open(analyzer: Analyzer, conditions: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The conditions in short form, without those that always hold."""
    short = [analyzer.simplify(x) for x in conditions]
    return [x for x in short if not (isinstance(x, e.IntImm) and x.value)]


def _matrix(
    analyzer: Analyzer, equations: Sequence[PrimExpr], variables: Sequence[Var]
) -> tuple[list[list[int]], list[Sum]]:
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
    analyzer: Analyzer, form: Sum, variables: Sequence[Var], what: PrimExpr
) -> tuple[list[int], Sum]:
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


def _combined(factors: Sequence[int], values: Sequence[Sum]) -> Sum:
    total = Sum()
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
        for at in range(self.rank, count):
            self._orient(at)

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

    def _orient(self, at: int) -> None:
        """The first variable that a free one changes grows with it."""
        if next((line[at] for line in self.columns if line[at]), 1) < 0:
            for line in (*self.rows, *self.columns):
                line[at] = -line[at]
            self.inverse[at] = [-value for value in self.inverse[at]]

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
    analyzer: Analyzer, steps: _Hermite, constants: list[Sum], kind: Any
) -> tuple[list[Sum], list[PrimExpr]]:
    """Values of the pivots by forward substitution, and the conditions under which there are."""
    values: list[Sum] = []
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
