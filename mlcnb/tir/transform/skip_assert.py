"""SkipAssert: a program without its assertions.

assert n > 0, "empty"                    ->        A[0] = 1
A[0] = 1
"""

from __future__ import annotations

from mlcnb.core.node import Node
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.stmt import AssertStmt, flattened


def skip_asserts(func: PrimFunc) -> PrimFunc:
    """`func` without assertions."""
    return func.with_body(rewrite_statements(func.body, _skip))


def _skip(n: Node) -> Node | None:
    return n.body if isinstance(n, AssertStmt) else flattened(n)


class SkipAssert(PrimFuncPass):
    """Leave out assertions."""

    work = staticmethod(skip_asserts)
