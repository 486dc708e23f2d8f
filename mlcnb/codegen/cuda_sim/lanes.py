"""Vectors of one thread as loops over their lanes: threads are what vectors are made of here.

r[0:4] = A[tx * 4:tx * 4 + 4] * 2.0      ->      for lane in range(4):
                                                     r[lane] = A[tx * 4 + lane] * 2.0

So that what neighbouring threads do lies side by side: registers of all threads for one lane, not
those of one thread for all lanes. Asynchronous copies are done where they are issued.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.effects import LANEWISE
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.transform.inject_ptx_async_copy import done_at_once

#: calls that do the same in every lane, whatever stands in the others
_BY_LANE = LANEWISE | {"tir.if_then_else", "tir.reinterpret"}


class _Whole(Exception):
    """Raised inside where a vector is more than its lanes."""


def lanes_to_loops(body: s.Stmt) -> s.Stmt:
    """`body` with each store of a vector as a loop, if its lanes do not know of each other."""
    return rewrite(body, _rule)


def _rule(n: Node) -> Node | None:
    at_once = done_at_once(n)
    return _as_loop(at_once or n) or at_once


def _as_loop(n: Any) -> s.Stmt | None:
    """A store of a vector as a loop over its lanes; None for anything else."""
    if not isinstance(n, s.BufferStore) or n.predicate is not None:
        return None
    lanes = n.value.dtype.lanes
    taken = {x.buffer.data for x in walk(n.value) if isinstance(x, BufferLoad)}
    if lanes == 1 or n.buffer.dtype.lanes > 1 or n.buffer.data in taken:
        return None
    lane = Var("lane", "int32")
    try:
        indices = tuple(_of(i, lane) for i in n.indices)
        store = replace(n, indices=indices, value=_of(n.value, lane))
    except _Whole:
        return None
    return s.For(lane, p.const(0), p.const(lanes), s.ForKind.SERIAL, store)


def _of(x: PrimExpr, lane: Var) -> PrimExpr:
    """What one lane of an expression is.

    Raises:
        _Whole: it is not made of its lanes.
    """
    if x.dtype.lanes == 1:
        return x
    one = x.dtype.element
    match x:
        case e.Ramp(base, stride):
            return p.add(base, p.multiply(stride, p.cast(one, lane)))
        case e.Broadcast(value):
            return value
        case e.Cast(value=value):
            return p.cast(one, _of(value, lane))
        case BufferLoad(buffer=buffer, predicate=None) if buffer.dtype.lanes == 1:
            return replace(x, indices=tuple(_of(i, lane) for i in x.indices))
        case e.Call(op=op) if op in _BY_LANE:
            return replace(x, dtype=one, args=tuple(_of(a, lane) for a in x.args))
        case e.Call() | e.Let() | e.Shuffle() | BufferLoad() | Var():
            raise _Whole
    return map_children(x, lambda y: _of(y, lane) if isinstance(y, PrimExpr) else y)
