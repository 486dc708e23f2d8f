"""RewriteUnsafeSelect: a choice of which one side may not be computed computes one side only.

T.Select(i < 8, A[i], 0)                 ->        T.if_then_else(i < 8, A[i], 0)
"""

from __future__ import annotations

from mlcnb.core.node import Node, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc


def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """`func` with `if_then_else` for every Select that reads memory or calls what has an effect."""
    return func.with_body(rewrite(func.body, _rewrite))


def _rewrite(n: Node) -> Node | None:
    if not isinstance(n, e.Select) or n.condition.dtype.lanes != 1:
        return None
    if _is_unsafe(n.true_value) or _is_unsafe(n.false_value):
        return p.if_then_else(n.condition, n.true_value, n.false_value)
    return None


def _is_unsafe(x: e.PrimExpr) -> bool:
    """True where it might be computed in vain only: what `if_then_else` guards is guarded."""
    if isinstance(x, e.Call) and x.op == "tir.if_then_else":
        return _is_unsafe(x.args[0])
    return has_effect(x) or any(isinstance(n, BufferLoad) for n in walk(x))


class RewriteUnsafeSelect(PrimFuncPass):
    """Compute only the side that is chosen, where the other one may not be computed."""

    work = staticmethod(rewrite_unsafe_select)
