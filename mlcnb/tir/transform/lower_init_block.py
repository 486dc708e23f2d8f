"""LowerInitBlock: what starts a reduction becomes an `if` in the body.

with T.block("C"):                              with T.block("C"):
    vi, vk = T.axis.remap("SR", [i, k])             vi, vk = T.axis.remap("SR", [i, k])
    with T.init():                       ->         if vk == 0:
        C[vi] = 0.0                                     C[vi] = 0.0
    C[vi] = C[vi] + A[vi, vk]                       C[vi] = C[vi] + A[vi, vk]
"""

from __future__ import annotations

from mlcnb.core.node import Node, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.reduction import first_step
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.stmt import Block, IfThenElse, seq


def lower_init_block(func: PrimFunc) -> PrimFunc:
    """`func` with every `init` turned into an `if` on the first step of the reduce axes."""
    return func.with_body(rewrite_statements(func.body, _lower))


def _lower(n: Node) -> Node | None:
    if not isinstance(n, Block) or n.init is None:
        return None
    at_start = first_step(n)
    first = n.init if p.is_const(at_start, 1) else IfThenElse(at_start, n.init, span=n.span)
    return replace(n, init=None, body=seq(first, n.body))


class LowerInitBlock(PrimFuncPass):
    """Turn the `init` of reduction blocks into an `if` on the first reduction step."""

    work = staticmethod(lower_init_block)
