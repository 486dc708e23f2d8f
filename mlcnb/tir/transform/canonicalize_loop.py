"""CanonicalizeLoop: every loop starts at 0.

for i in range(4, 12):                   ->        for i in range(8):
    A[i] = 0                                           A[i + 4] = 0
"""

from __future__ import annotations

from mlcnb.core.node import Node, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.stmt import For


def canonicalize_loops(func: PrimFunc) -> PrimFunc:
    """`func` with loops from 0, their variable moved where it is used."""
    return func.with_body(rewrite_statements(func.body, _from_zero))


def _from_zero(n: Node) -> Node | None:
    if not isinstance(n, For) or p.is_const(n.min, 0):
        return None
    var = Var(n.loop_var.name, n.loop_var.dtype)
    body = substitute(n.body, {n.loop_var: var + n.min})
    return replace(n, loop_var=var, min=p.const(0, var.dtype), body=body)


class CanonicalizeLoop(PrimFuncPass):
    """Let every loop start at 0."""

    work = staticmethod(canonicalize_loops)
