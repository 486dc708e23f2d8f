"""RenormalizeSplitPattern: indices that were split and put together again are short again.

A[(i * 8 + j) // 8, (i * 8 + j) % 8]      ->      A[i, j]          for j in range(8)

Only expressions with a division are looked at; loops, tests and all else stay (`Simplify` takes
those). The same normal form as everywhere: under the bounds of the loops.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, map_children, walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import AttrStmt, For
from mlcnb.tir.transform.simplify import Simplifier

_DIVISIONS = (e.FloorDiv, e.FloorMod)


def renormalize_split_patterns(func: PrimFunc) -> PrimFunc:
    """`func` with divisions in their shortest form."""
    return func.with_body(_visited(Simplifier(), func.body))


def _visited(simplifier: Simplifier, n: Any) -> Any:
    if isinstance(n, Buffer):
        return n
    if isinstance(n, For):
        simplifier.analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
    if isinstance(n, AttrStmt) and bound_axis(n) is not None:
        simplifier.analyzer.bind(n.node.var, n.node.dom)
    if isinstance(n, PrimExpr) and n.dtype.is_integer and _divides(n):
        return simplifier.visit_expr(n)
    return map_children(n, lambda child: _visited(simplifier, child))


def _divides(n: Node) -> bool:
    return any(isinstance(x, _DIVISIONS) for x in walk(n))


class RenormalizeSplitPattern(PrimFuncPass):
    """Write indices that were split and put together again in their shortest form."""

    work = staticmethod(renormalize_split_patterns)
