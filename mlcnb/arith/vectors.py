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
