"""Ramps and broadcasts: arithmetic that stays a ramp.

Ramp(i, 1, 4) * Broadcast(2, 4) + Broadcast(n, 4)   ->   Ramp(i * 2 + n, 2, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.arith.learning import Learner, is_index
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import FOLDING, Binary


def vector_rule(build: Callable[[Any, Any], PrimExpr]) -> Callable[[Learner, Any], PrimExpr]:
    """Arithmetic of ramps and broadcasts, lane by lane."""

    def simplify(self: Learner, x: Any) -> PrimExpr:
        a, b = self.simplify(x.a), self.simplify(x.b)
        if isinstance(a, e.Broadcast) and isinstance(b, e.Broadcast):
            return e.Broadcast(self.simplify(build(a.value, b.value)), a.lanes)
        moved = _moved(self, build, a, b)
        if moved is not None:
            return moved
        return x if a is x.a and b is x.b else build(a, b)

    return simplify


def _moved(self: Learner, build: Callable, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """A ramp plus, minus or times a broadcast is a ramp."""
    index = is_index(a.dtype.element)
    if not index or build not in (p.add, p.subtract, p.multiply):
        return None
    if isinstance(b, e.Ramp) and isinstance(a, e.Broadcast) and build is not p.subtract:
        a, b = b, a
    if not (isinstance(a, e.Ramp) and isinstance(b, e.Broadcast)):
        return None
    stride = build(a.stride, b.value) if build is p.multiply else a.stride
    base = self.simplify(build(a.base, b.value))
    return e.Ramp(base, self.simplify(stride), a.lanes)


def as_ramp(x: PrimExpr, analyzer: Any) -> e.Ramp | None:
    """The ramp that a vector of indices is, where its lanes are evenly spaced.

    i * 16 + Ramp(0, 1, 64) // 4 * 4 + Ramp(0, 1, 64) % 4     ->     Ramp(i * 16, 1, 64)
    """
    first = _lane(x, 0)
    if first is None:
        return None
    gaps = [analyzer.simplify(p.subtract(_lane(x, n), first)) for n in range(1, x.dtype.lanes)]
    step = p.as_int(gaps[0])
    if step is None or any(p.as_int(gap) != step * n for n, gap in enumerate(gaps, start=1)):
        return None
    return e.Ramp(analyzer.simplify(first), p.const(step, first.dtype), x.dtype.lanes)


def _lane(x: PrimExpr, n: int) -> PrimExpr | None:
    """One lane of a vector as a number; None where it is made of other things than arithmetic."""
    match x:
        case e.Ramp(base, stride) if base.dtype.lanes == 1:
            return p.add(base, p.multiply(stride, p.const(n, stride.dtype)))
        case e.Broadcast(value) if value.dtype.lanes == 1:
            return value
    build = _LANES.get(type(x))
    if build is None:
        return x if x.dtype.lanes == 1 else None
    a, b = _lane(x.a, n), _lane(x.b, n)  # type: ignore[attr-defined]
    return None if a is None or b is None else build(a, b)


_LANES: dict[type, Binary] = {
    kind: FOLDING[kind] for kind in (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod)
}
