"""ConvertForLoopsToSerial: every loop runs one iteration after the other.

for i in T.parallel(8):                  ->        for i in range(8):
"""

from __future__ import annotations

from mlcnb.core.node import Node, replace
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements
from mlcnb.tir.stmt import For, ForKind


def convert_for_loops_to_serial(func: PrimFunc) -> PrimFunc:
    """`func` with parallel loops made serial."""
    return func.with_body(rewrite_statements(func.body, _serial))


def _serial(n: Node) -> Node | None:
    if isinstance(n, For) and n.kind is ForKind.PARALLEL:
        return replace(n, kind=ForKind.SERIAL)
    return None


class ConvertForLoopsToSerial(PrimFuncPass):
    """Make parallel loops serial."""

    work = staticmethod(convert_for_loops_to_serial)
