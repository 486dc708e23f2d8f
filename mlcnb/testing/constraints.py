"""Conditions and systems of them, tried at points; two expressions, proved equal.

assert_prim_expr_equal(x * 4 // 4, x)                         for all values of the variables
check_bool_expr_is_true(x % 4 < 4, {x: Range(0, 100)})        everywhere in the ranges
check_int_constraints_trans_consistency(solved)              a system and its solution say the same
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from mlcnb.arith import Analyzer, IntConstraints, IntConstraintsTransform
from mlcnb.core.node import rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var

#: points tried where there are more (a solver is wrong at many, or at none)
_TRIED = 200
#: where a variable without a range is tried
_AROUND = range(-8, 9)

Point = Mapping[Var, int]


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Two expressions have the same value for all values of their variables.

    Raises:
        AssertionError: that cannot be proved.
    """
    a, b = p.match_dtypes(p.as_expr(lhs), rhs)
    if not Analyzer().can_prove(p.equal(a, b)):
        raise AssertionError(f"{a} and {b} are not known to be equal")


def check_bool_expr_is_true(bool_expr: Any, vranges: Mapping[Var, Range], cond: Any = None) -> None:
    """A condition holds wherever `cond` does, at all points of the ranges (200 of them, if more).

    Raises:
        AssertionError: it does not, or its value is not known; the point is named.
    """
    for point in _points(list(vranges), vranges):
        if (cond is None or _holds(cond, point)) and not _holds(bool_expr, point):
            where = ", ".join(f"{var.name} = {value}" for var, value in point.items())
            raise AssertionError(f"{bool_expr} does not hold at {where}")


def check_int_constraints_trans_consistency(
    constraints_trans: IntConstraintsTransform, vranges: Mapping[Var, Range] | None = None
) -> None:
    """Each solution of a system has its place in the transformed one and comes back, both ways.

    Args:
        constraints_trans: what a solver gave.
        vranges: the ranges of other variables.

    Raises:
        AssertionError: a point of one system has none in the other, or comes back as another.
    """
    src, dst = constraints_trans.src, constraints_trans.dst
    there, back = constraints_trans.dst_to_src, constraints_trans.src_to_dst
    if any(p.is_const(x, 0) for x in dst.relations) and not dst.variables:
        there, back = {}, {}
    for system, other, forth, home in ((src, dst, there, back), (dst, src, back, there)):
        _one_way(system, other, forth, home, vranges or {})


def _one_way(
    system: IntConstraints,
    other: IntConstraints,
    forth: Mapping[Var, PrimExpr],
    home: Mapping[Var, PrimExpr],
    fixed: Mapping[Var, Range],
) -> None:
    ranges = {**fixed, **system.ranges}
    names = list(dict.fromkeys((*fixed, *system.variables)))
    for point in _points(names, ranges):
        if not _is_inside(system, point):
            continue
        image = {**{var: point[var] for var in fixed}}
        image |= {var: _number(forth[var], point) for var in other.variables}
        if not _is_inside(other, image):
            raise AssertionError(f"{_shown(point)} solves {system}, {_shown(image)} not {other}")
        for var in system.variables:
            if var in home and _number(home[var], image) != point[var]:
                raise AssertionError(f"{_shown(point)} comes back with another {var.name}")


def _is_inside(system: IntConstraints, point: Point) -> bool:
    bounds = ((var, bounds) for var, bounds in system.ranges.items() if var in point)
    for var, domain in bounds:
        first = _number(domain.min, point)
        if not first <= point[var] < first + _number(domain.extent, point):
            return False
    return all(_holds(x, point) for x in system.relations)


def _points(names: Sequence[Var], ranges: Mapping[Var, Range]) -> Iterator[dict[Var, int]]:
    sides = [_values(ranges.get(var)) for var in names]
    if prod(map(len, sides)) <= _TRIED:
        every: Any = itertools.product(*sides)
    else:
        drawn = random.Random(0)
        every = ([drawn.choice(side) for side in sides] for _ in range(_TRIED))
    for values in every:
        yield dict(zip(names, values, strict=True))


def _values(bounds: Range | None) -> range:
    first = None if bounds is None else p.as_int(bounds.min)
    count = None if bounds is None else p.as_int(bounds.extent)
    return _AROUND if first is None or count is None else range(first, first + count)


def _put(x: Any, point: Point) -> PrimExpr:
    values = {var: p.const(value, var.dtype) for var, value in point.items()}
    rule = values.get
    return Analyzer().simplify(
        rewrite(p.as_expr(x), lambda n: rule(n) if isinstance(n, Var) else None)
    )


def _holds(x: Any, point: Point) -> bool:
    return p.is_const(_put(x, point), 1)


def _number(x: Any, point: Point) -> int:
    found = p.as_int(_put(x, point))
    if found is None:
        raise AssertionError(f"{x} has no value at {_shown(point)}")
    return found


def _shown(point: Point) -> str:
    return ", ".join(f"{var.name} = {value}" for var, value in point.items())
