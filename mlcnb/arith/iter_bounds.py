"""Bounds that a predicate sets to sums of loop variables.

2 <= i * 4 + j  and  i * 4 + j < 15  and  x * 10 < 128 - y
i * 4 + j in 2 .. 15,  x * 10 + y in .. 128
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.forms import in_order
from mlcnb.arith.iter_sum import NoIterMap
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var


@dataclass(frozen=True)
class Bounded:
    """low <= value < high; None: no bound on this side."""

    value: PrimExpr
    low: PrimExpr | None
    high: PrimExpr | None

    def both(self, other: Bounded) -> Bounded:
        """What two bounds of one value say together."""
        low = self.low if other.low is None else other.low
        if self.low is not None and other.low is not None:
            low = p.maximum(self.low, other.low)
        high = self.high if other.high is None else other.high
        if self.high is not None and other.high is not None:
            high = p.minimum(self.high, other.high)
        return Bounded(self.value, low, high)


def bounded_sums(
    analyzer: Analyzer, conditions: Sequence[PrimExpr], variables: Container[Var]
) -> list[Bounded]:
    """The sums of `variables` that conditions bound, each once, small ones first.

    Raises:
        NoIterMap: a condition is no comparison.
    """
    found: dict[object, Bounded] = {}
    for condition in conditions:
        simple = analyzer.simplify(condition)
        if isinstance(simple, e.IntImm) and simple.value:
            continue
        bounds = _bounds(condition, variables)
        key = analyzer.normalizer.key(bounds.value)
        found[key] = found[key].both(bounds) if key in found else bounds
    return sorted(found.values(), key=lambda x: sum(1 for _ in walk(x.value)))


def _runs(x: PrimExpr, variables: Container[Var]) -> bool:
    return any(isinstance(n, Var) and n in variables for n in walk(x))


def _bounds(condition: PrimExpr, variables: Container[Var]) -> Bounded:
    if isinstance(condition, e.EQ):
        value, bound = _sides(condition.a, condition.b, variables)
        return Bounded(value, bound, bound + 1)
    found = in_order(condition)
    if found is None:
        raise NoIterMap(f"the predicate {condition!r} is no bound of a sum")
    a, b, strict = found
    if not _runs(b, variables):
        return Bounded(a, None, b + (1 - strict))
    if not _runs(a, variables):
        return Bounded(b, a + strict, None)
    return Bounded(a - b, None, p.const(1 - strict, a.dtype))


def _sides(a: PrimExpr, b: PrimExpr, variables: Container[Var]) -> tuple[PrimExpr, PrimExpr]:
    """What runs and what it equals."""
    if not _runs(b, variables):
        return a, b
    return (b, a) if not _runs(a, variables) else (a - b, p.const(0, a.dtype))
