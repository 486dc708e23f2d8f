"""UnrollLoop: an unrolled loop becomes its iterations, one after the other.

for i in T.unroll(2):                    ->     C[0] = A[0]
    C[i] = A[i]                                 C[1] = A[1]
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import For, ForKind, seq

#: a loop of more iterations than this stays a loop
MAX_EXTENT = 256


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """`func` with loops of kind UNROLLED and constant extent written out."""
    return func.with_body(rewrite(func.body, _unroll))


def _unroll(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind is not ForKind.UNROLLED:
        return None
    start, extent = p.as_int(n.min), p.as_int(n.extent)
    if start is None or extent is None or not 0 < extent <= MAX_EXTENT:
        return replace(n, kind=ForKind.SERIAL)
    values = (p.const(start + i, n.loop_var.dtype) for i in range(extent))
    return seq(*(substitute(n.body, {n.loop_var: value}) for value in values))


class UnrollLoop(PrimFuncPass):
    """Write out loops of kind unroll, iteration by iteration."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `unroll_loops`."""
        return unroll_loops(func)
