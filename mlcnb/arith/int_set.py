"""Intervals of expressions: the values that an index takes while some variables run.

    set_of(i * 4 + j, {j: Range(0, 4)})      ->  [i * 4, i * 4 + 3]
    union([[i, i], [i + 1, i + 1]])          ->  [i, i + 1]

Ends are expressions over the variables that do not run; an end is None where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from mlcnb.arith.analyzer import Analyzer, can_prove, simplify
from mlcnb.arith.emission import emit
from mlcnb.arith.ends import ends_of
from mlcnb.arith.sum import Sum
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var


@dataclass(frozen=True, slots=True)
class IntSet:
    """The integers from `low` to `high`, both included; None where there is no end."""

    low: PrimExpr | None
    high: PrimExpr | None

    @property
    def is_bounded(self) -> bool:
        """True if both ends are known."""
        return self.low is not None and self.high is not None

    @property
    def is_point(self) -> bool:
        """True if there is one value."""
        return self.low is not None and self.low is self.high

    @property
    def min_value(self) -> PrimExpr:
        """`low`, as TVM has it: `neg_inf()` where there is no end."""
        if self is NOTHING:
            return pos_inf()
        return neg_inf() if self.low is None else self.low

    @property
    def max_value(self) -> PrimExpr:
        """`high`, as TVM has it: `pos_inf()` where there is no end."""
        if self is NOTHING:
            return neg_inf()
        return pos_inf() if self.high is None else self.high

    def is_everything(self) -> bool:
        """True if no end is known."""
        return self.low is None and self.high is None

    def is_nothing(self) -> bool:
        """True if there surely is no value: the ends are the wrong way round."""
        return self is NOTHING or self.is_bounded and can_prove(p.less(self.high, self.low))

    def contains(self, x: Any, analyzer: Analyzer | None = None) -> bool:
        """True if a number surely is between the ends."""
        analyzer = analyzer or Analyzer()
        x = p.as_expr(x)
        above = self.low is None or analyzer.can_prove(p.less_equal(self.low, x))
        return above and (self.high is None or analyzer.can_prove(p.less_equal(x, self.high)))

    def union(self, other: IntSet) -> IntSet:
        """The smallest interval that holds both."""
        low = _picked(p.minimum, self.low, other.low, None)
        return IntSet(low, _picked(p.maximum, self.high, other.high, None))

    def intersect(self, other: IntSet) -> IntSet:
        """What both hold."""
        low = _picked(p.maximum, self.low, other.low, _either(self.low, other.low))
        high = _picked(p.minimum, self.high, other.high, _either(self.high, other.high))
        return IntSet(low, high)

    @staticmethod
    def single_point(x: Any) -> IntSet:
        """One value."""
        x = p.as_expr(x)
        return IntSet(x, x)

    @staticmethod
    def interval(low: Any, high: Any) -> IntSet:
        """From low to high, both included; None: no end."""
        return interval_set(low, high)

    @staticmethod
    def from_range(bounds: Range) -> IntSet:
        """The values of a Range."""
        return IntSet(bounds.min, simplify(bounds.min + bounds.extent - 1))

    @staticmethod
    def vector(x: PrimExpr) -> IntSet:
        """The lanes of a vector of integers."""
        if isinstance(x, e.Broadcast):
            return IntSet.single_point(x.value)
        if not isinstance(x, e.Ramp):
            return IntSet.single_point(x) if x.dtype.lanes == 1 else EVERYTHING
        if not isinstance(x.lanes, int):  # as many lanes as the machine has
            upward = p.as_int(x.stride)
            ends = None if upward is None else (x.base, None) if upward >= 0 else (None, x.base)
            return EVERYTHING if ends is None else IntSet(*ends)
        last = simplify(x.base + x.stride * (x.lanes - 1))
        step = p.as_int(x.stride)
        if step is None:
            return EVERYTHING
        return IntSet(x.base, last) if step >= 0 else IntSet(last, x.base)

    @staticmethod
    def everything() -> IntSet:
        """No end is known."""
        return EVERYTHING

    @staticmethod
    def nothing() -> IntSet:
        """No value."""
        return NOTHING


def _picked(pick: Any, a: PrimExpr | None, b: PrimExpr | None, other: Any) -> PrimExpr | None:
    """One of two ends in short form; `other` where there are not two."""
    return other if a is None or b is None else simplify(pick(a, b))


def _either(a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return b if a is None else a


EVERYTHING = IntSet(None, None)
NOTHING = IntSet(p.const(1), p.const(0))
_NEG_INF, _POS_INF = (Var(name, p.dtype("handle")) for name in ("neg_inf", "pos_inf"))


def neg_inf() -> Var:
    """What stands for the lower end of a set that has none."""
    return _NEG_INF


def pos_inf() -> Var:
    """What stands for the upper end of a set that has none."""
    return _POS_INF


def interval_set(min_value: Any, max_value: Any) -> IntSet:
    """From min_value to max_value, both included; None, `neg_inf()`, `pos_inf()`: no end."""
    if min_value is _POS_INF or max_value is _NEG_INF:
        return NOTHING
    low = None if min_value is None or min_value is _NEG_INF else p.as_expr(min_value)
    return IntSet(low, None if max_value is None or max_value is _POS_INF else p.as_expr(max_value))


IntervalSet = interval_set


def union_lower_bound(sets: Sequence[IntSet]) -> IntSet:
    """An interval that the sets together surely fill: what overlaps, or follows, is joined.

    Where they do not join up, the first of them that is not empty.
    """
    waiting = [x for x in sets if not x.is_nothing()]
    if not waiting:
        return NOTHING
    found = waiting.pop(0)
    while True:
        near = next((x for x in waiting if _meet(found, x)), None)
        if near is None:
            return found
        waiting.remove(near)
        found = found.union(near)


def _meet(a: IntSet, b: IntSet) -> bool:
    """True if no integer lies between two intervals for sure."""

    def reaches(end: PrimExpr | None, start: PrimExpr | None) -> bool:
        return end is None or start is None or can_prove(p.less_equal(start, end + 1))

    return reaches(a.high, b.low) and reaches(b.high, a.low)


def interval_of(x: Any, domains: Mapping[Var, Any] | None, analyzer: Analyzer) -> IntSet:
    """`Analyzer.int_set`."""
    x = p.as_expr(x)
    if domains is None:
        low, high = analyzer.const_bounds(x)
        ends = (None if abs(end) == inf else p.const(int(end), x.dtype) for end in (low, high))
        return IntSet(*ends)
    ranges: dict[Var, Range] = {}
    for var, domain in domains.items():
        if isinstance(domain, IntSet):
            if domain.low is None or domain.high is None:
                return EVERYTHING if any(n is var for n in walk(x)) else IntSet.single_point(x)
            domain = Range(domain.low, simplify(domain.high - domain.low + 1))
        ranges[var] = domain
    return set_of(x, ranges, analyzer)


def set_of(x: Any, domains: Mapping[Var, Range], analyzer: Analyzer | None = None) -> IntSet:
    """The interval that `x` stays in while each variable of `domains` runs over its Range.

    A domain may use variables that stand before it in `domains` (outer loops first).
    """
    analyzer = analyzer or Analyzer()
    x = p.as_expr(x)
    with analyzer.scope(domains):
        low, high = ends_of(analyzer, analyzer.normal_form(x), domains)
        return as_set(low, high, x.dtype)


def as_set(low: Sum | None, high: Sum | None, dtype: DType) -> IntSet:
    """Ends as expressions."""
    first = None if low is None else emit(low, dtype)
    if low is not None and high is not None and low.is_same(high):
        return IntSet(first, first)
    return IntSet(first, None if high is None else emit(high, dtype))
