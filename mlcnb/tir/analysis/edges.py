"""Edges: where a test on linear indices fails, for what values of the loops around it.

if p * 64 + i * 8 + j < 127          j in 0..7, written out below p and i

    axis      p * 8 + i              what the outer loops' variables come to
    factor    8                      how the test depends on it; below 0, it fails for small values
    certain   15                     it holds for all j while axis < 15
    possible  16                     and for some j while axis < 16

A test `i * 7 + j < n` with j in 0..6 says that i goes over tiles of 7 places of a row of n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlcnb.arith.extremes import interval
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum, is_index
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.tir.stmt import For

#: first and last value of a loop's variable; None where they are not constant
Bounds = Mapping[e.Var, "tuple[int, int] | None"]
#: variable of a loop inside of a tile -> places in the row from one of its iterations to the next
Steps = dict[e.Var, int]


def ends_of(over: For | e.Range) -> tuple[int | None, int | None]:
    """First and last value of a loop's variable, or of a range; None where it is not constant."""
    start, extent = p.as_int(over.min), p.as_int(over.extent)
    return start, None if start is None or extent is None else start + extent - 1


def range_of(loop: For) -> tuple[int, int] | None:
    """First and last value of the loop's variable, where both are constant."""
    first, last = ends_of(loop)
    return None if first is None or last is None else (first, last)


_OPPOSITES: dict[type, Any] = {e.LT: e.GE, e.LE: e.GT, e.GT: e.LE, e.GE: e.LT, e.NE: e.EQ}


def opposite(condition: e.PrimExpr) -> e.PrimExpr | None:
    """A comparison that holds just where another one, marked or not, does not; None of others."""
    if isinstance(condition, e.Call) and condition.op == "tir.likely":
        condition = condition.args[0]
    kind = _OPPOSITES.get(type(condition))
    return None if kind is None else kind(condition.a, condition.b)  # type: ignore[attr-defined]


def conjuncts(condition: e.PrimExpr) -> Iterator[e.PrimExpr]:
    """What a condition joins by `and`."""
    if isinstance(condition, e.And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


@dataclass(frozen=True)
class Edge:
    """The test `factor * axis + rest <= 0`, where `rest` is between `best` and `worst`."""

    axis: Sum
    factor: int
    best: int
    worst: int
    rest: Sum
    dtype: DType

    @property
    def position(self) -> e.PrimExpr:
        """The axis as an expression."""
        return self.axis.expr(self.dtype)

    def is_along(self, axis: Sum) -> bool:
        """Whether the test asks for this sum of outer variables."""
        return self.axis.minus(axis).is_const

    def mentions(self, var: e.Var) -> bool:
        """Whether the test depends on an outer variable."""
        return self.axis.uses({var})

    def holds(self, first: int, last: int) -> bool:
        """Whatever inner loops do, while the axis is in first..last."""
        return max(self.factor * first, self.factor * last) + self.worst <= 0

    def fails(self, first: int, last: int) -> bool:
        """Whatever inner loops do, while the axis is in first..last."""
        return min(self.factor * first, self.factor * last) + self.best > 0

    def at(self, place: int) -> e.PrimExpr:
        """What the test asks of the inner loops at one value of the axis."""
        limit = -self.factor * place - self.rest.const
        return Sum(0, self.rest.terms).expr(self.dtype) <= p.const(limit, self.dtype)

    @property
    def certain(self) -> int:
        """Where the test begins to hold, or the first value at which it may fail."""
        return _turn(self.factor, self.worst)

    @property
    def possible(self) -> int:
        """Where the test may hold for the first time, or the first value at which it fails."""
        return _turn(self.factor, self.best)

    def range(self, outer: Bounds) -> tuple[int, int] | None:
        """Smallest and largest value of the axis, where the outer loops bound it."""
        found = interval(self.axis, outer)
        if found is None or found[0].terms or found[1].terms:
            return None
        return found[0].const, found[1].const


def _turn(factor: int, rest: int) -> int:
    """factor * x + rest <= 0 from this x on, or before it."""
    return -(-rest // -factor) if factor < 0 else -rest // factor + 1


def edge_of(condition: e.PrimExpr, inner: Bounds) -> Edge | None:
    """The edge of `a < b` or `a <= b` below these inner loops.

    None where it depends on these alone, or on something that cannot be bounded.
    """
    if not isinstance(condition, e.LT | e.LE):
        return None
    difference = condition.a - condition.b
    if not is_index(difference.dtype):
        return None
    form = of(difference)
    bounds = interval(form, inner)
    if bounds is None or bounds[0].is_const or not bounds[0].minus(bounds[1]).is_const:
        return None
    low, high = bounds
    factor = math.gcd(*low.terms.values()) * (1 if next(iter(low.terms.values())) > 0 else -1)
    axis = Sum(0, low.terms).divided(factor)
    rest = form.plus(axis, -factor)
    if any(term in axis.terms for term in rest.terms):
        return None
    strict = int(isinstance(condition, e.LT))
    return Edge(
        axis,
        factor,
        low.const + strict,
        high.const + strict,
        rest.shifted(strict),
        difference.dtype,
    )


class RowTile(NamedTuple):
    """`width` places of a row of open `length`, one tile behind the other."""

    width: int
    length: Sum

    def is_same(self, other: RowTile) -> bool:
        """Whether another test is of the same tiles."""
        return other.width == self.width and other.length.is_same(self.length)


def extent_of(n: For) -> int | None:
    """Iterations of a loop from 0 on, where they are constant."""
    ends = range_of(n)
    return ends[1] + 1 if ends is not None and ends[0] == 0 else None


def tile_of(
    test: e.PrimExpr, var: e.Var, loops: dict[e.Var, int | None]
) -> tuple[RowTile, Steps] | None:
    """The tile of the test `var * width + places < length`, and the steps of the loops in it."""
    if not isinstance(test, e.LT | e.LE) or not is_index(test.a.dtype):
        return None
    form = of(test.a).minus(of(test.b)).shifted(int(isinstance(test, e.LE)) * -1)
    width = form.terms.get(var, 0)
    steps = {v: c for v, c in form.terms.items() if v in loops}
    extents = [loops[v] for v in steps]
    if width <= 1 or None in extents or any(c < 1 for c in steps.values()):
        return None
    reach = sum(c * (n - 1) for c, n in zip(steps.values(), extents, strict=True) if n is not None)
    rest = {v: -c for v, c in form.terms.items() if v is not var and v not in steps}
    length = Sum(-form.const, rest)
    if reach != width - 1 or length.uses({var, *loops}):
        return None
    return RowTile(width, length), steps
