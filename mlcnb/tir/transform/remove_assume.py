"""RemoveAssume: what was promised to the compiler is no longer written.

T.assume(n == 16)                        ->        (nothing)
"""

from __future__ import annotations

from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING, rewrite_statements, taken
from mlcnb.tir.stmt import Evaluate


def remove_assume(func: PrimFunc) -> PrimFunc:
    """`func` without `T.assume`."""
    return func.with_body(rewrite_statements(func.body, _remove))


def _remove(n: Node) -> Node | None:
    match n:
        case Evaluate(e.Call(_, "tir.assume", _)):
            return NOTHING
    return taken(n)


class RemoveAssume(PrimFuncPass):
    """Remove `T.assume`."""

    work = staticmethod(remove_assume)
