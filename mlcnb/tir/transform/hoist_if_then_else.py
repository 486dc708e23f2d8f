"""HoistIfThenElse: a test that is the same for every iteration is done once, before the loop.

for i in range(4):                              for i in range(4):
    for j in range(8):                              if i < 3:
        if i < 3:                        ->             for j in range(8):
            B[i, j] = A[i, j]                               B[i, j] = A[i, j]

Only where the test is all that the loop holds, and neither reads memory nor might divide by zero:
a loop of no iterations does not do its tests.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import For, ForKind, IfThenElse

_DIVISIONS = (e.Div, e.Mod, e.FloorDiv, e.FloorMod)


def hoist_if_then_else(func: PrimFunc) -> PrimFunc:
    """`func` with tests moved out of loops whose variable they do not use, innermost loop first."""
    return func.with_body(rewrite(func.body, _hoist))


def _hoist(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind is ForKind.THREAD_BINDING:
        return None
    test = n.body
    if not isinstance(test, IfThenElse) or not _is_fixed(test.condition, n.loop_var):
        return None
    then = replace(n, body=test.then_case)
    other = None if test.else_case is None else replace(n, body=test.else_case)
    return IfThenElse(test.condition, then, other, test.span)


def _is_fixed(condition: e.PrimExpr, var: e.Var) -> bool:
    """True for a condition that is the same in every iteration, and safe without any."""
    return not has_effect(condition) and not any(
        n is var or isinstance(n, BufferLoad) or _may_stop(n) for n in walk(condition)
    )


def _may_stop(n: Node) -> bool:
    """True for a division of integers by what may be zero."""
    if not isinstance(n, _DIVISIONS) or n.dtype.is_float:
        return False
    return not (isinstance(n.b, e.IntImm) and n.b.value != 0)


class HoistIfThenElse(PrimFuncPass):
    """Move tests that do not depend on a loop out of it."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `hoist_if_then_else`."""
        return hoist_if_then_else(func)
