"""Conditions solved for a variable.

i * 4 + j < n   for all j in 0..4      deduce_bound      i <= (n - 4) // 4
i >= 2 and i + 1 < n                   detect_clip_bound i from 2 to n - 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith import division
from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.emission import emit
from mlcnb.arith.ends import ends_of
from mlcnb.arith.forms import flattened, in_order
from mlcnb.arith.int_set import EVERYTHING, NOTHING, IntSet
from mlcnb.arith.interval import bounds_of
from mlcnb.arith.linear import depends_on
from mlcnb.arith.proof import is_nonnegative
from mlcnb.arith.sum import Atom, Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var

Domains = Mapping[Var, Any]


def deduce_bound(
    var: Var, condition: Any, hint_map: Domains | None = None, relax_map: Domains | None = None
) -> IntSet:
    """Values of a variable for which a condition surely holds.

    Args:
        var: the variable.
        condition: comparisons, joined by `and`; linear in the variable.
        hint_map: variable -> IntSet or Range that it lies in; it stays in the result.
        relax_map: variable -> IntSet or Range for all of whose values the condition is to hold.

    Returns:
        The interval; the empty one where the condition cannot be solved for the variable, or has
        no solution.
    """
    analyzer = Analyzer()
    for known in (hint_map or {}, relax_map or {}):
        for name, domain in known.items():
            analyzer.bind(name, _range_of(domain) or (None, None))
    relaxed = {name: _range_of(domain) for name, domain in (relax_map or {}).items()}
    if None in relaxed.values():
        return NOTHING
    found = EVERYTHING
    for part in flattened(p.as_expr(condition), e.And):
        solved = _solved(analyzer, var, part, relaxed)  # type: ignore[arg-type]
        if solved is None:
            return NOTHING
        found = found.intersect(solved)
    return NOTHING if found.is_nothing() else found


def _range_of(domain: Any) -> Range | None:
    if isinstance(domain, Range):
        return domain
    if domain.low is None or domain.high is None:
        return None
    return Range(domain.low, domain.high - domain.low + 1)


def margins(analyzer: Analyzer, condition: Any) -> list[Sum] | None:
    """Polynomials that are >= 0 just where a comparison holds; None for anything else."""
    if isinstance(condition, e.Call) and condition.op == "tir.likely":
        return margins(analyzer, condition.args[0])
    is_equal = isinstance(condition, e.EQ)
    sides = (condition.a, condition.b, 0) if is_equal else in_order(condition)
    if sides is None or sides[0].dtype not in ("int32", "int64"):
        return None
    a, b, strict = (*map(analyzer.normal_form, sides[:2]), sides[2])
    return [b.minus(a).shifted(-strict), *([a.minus(b)] if is_equal else [])]


def _solved(
    analyzer: Analyzer, var: Var, condition: Any, relaxed: Mapping[Var, Range]
) -> IntSet | None:
    found = EVERYTHING
    if isinstance(condition, e.IntImm):
        return EVERYTHING if condition.value else None
    parts = margins(analyzer, condition)
    if parts is None:
        return None
    for margin in parts:
        one = _bound(analyzer, var, margin, relaxed)
        if one is None:
            return None
        found = found.intersect(one)
    return found


def _bound(
    analyzer: Analyzer, var: Var, margin: Sum, relaxed: Mapping[Var, Range]
) -> IntSet | None:
    """The interval of `var` where factor * var + rest >= 0 for all values of relaxed variables."""
    parts = margin.coefficient_of(analyzer.context.var(var))
    quotient = _quotient_of(margin, var)
    if quotient is not None:
        return _bound_of_quotient(analyzer, var, margin, quotient, relaxed)
    if parts is None or depends_on(parts[1], {var}) or depends_on(parts[0], {*relaxed, var}):
        return None
    factor, rest = parts
    least = ends_of(analyzer, rest, relaxed)[0]
    if least is None:
        return None
    low, high = bounds_of(analyzer.context, factor)
    kind = var.dtype
    if low == high == 0:
        return EVERYTHING if is_nonnegative(analyzer.context, least) else None
    if low > 0:
        return IntSet(_quotient(analyzer, least.scaled(-1), factor, kind, up=True), None)
    if high < 0:
        return IntSet(None, _quotient(analyzer, least, factor.scaled(-1), kind, up=False))
    return None


def _quotient_of(margin: Sum, var: Var) -> Atom | None:
    """The term `… // c` of a margin that alone depends on the variable."""
    found = [m for m in margin.terms if depends_on(Sum(0, {m: 1}), {var})]
    if len(found) != 1 or found[0].kind != "split":
        return None
    return found[0] if found[0].args[2] is None else None


def _bound_of_quotient(
    analyzer: Analyzer, var: Var, margin: Sum, term: Atom, relaxed: Mapping[Var, Range]
) -> IntSet | None:
    """factor * (inner // by) + rest >= 0 says inner >= k * by, or inner < (k + 1) * by."""
    inner, by, _ = term.args
    factor = margin.terms[term]
    rest = margin.without(term)
    least = ends_of(analyzer, rest, relaxed)[0]
    if least is None:
        return None
    ctx = analyzer.context
    if factor > 0:
        start = division.divide(ctx, least.scaled(-1).shifted(factor - 1), factor)
        return _bound(analyzer, var, inner.minus(start.scaled(by)), relaxed)
    last = division.divide(ctx, least, -factor)
    return _bound(analyzer, var, last.scaled(by).shifted(by - 1).minus(inner), relaxed)


def _quotient(analyzer: Analyzer, x: Sum, by: Sum, kind: DType, up: bool) -> PrimExpr:
    """x / by, rounded up or down, for by > 0."""
    if up:
        x = x.plus(by).shifted(-1)
    return emit(division.floordiv(analyzer.context, x, by, kind), kind)


def detect_clip_bound(condition: Any, variables: Sequence[Var]) -> list[PrimExpr | None]:
    """[low0, high0, low1, high1, …]: what a condition says of each variable; [] for none.

    The condition is comparisons joined by `and`, each of which bounds one of the variables. An end
    that nothing is said of is None.
    """
    analyzer = Analyzer()
    ends: dict[Var, IntSet] = dict.fromkeys(variables, EVERYTHING)
    for part in flattened(p.as_expr(condition), e.And):
        parts = margins(analyzer, part)
        if parts is None:
            return []
        for margin in parts:
            used = [v for v in variables if depends_on(margin, {v})]
            bound = _bound(analyzer, used[0], margin, {}) if len(used) == 1 else None
            if bound is None:
                return []
            ends[used[0]] = ends[used[0]].intersect(bound)
    return [end for v in variables for end in (ends[v].low, ends[v].high)]
