"""CombineContextCall: the context of a device is asked for once.

for i in range(n):                                  c: T.handle = T.call_extern("handle", "ctx", 0)
    T.call_extern("int32", "f",                     for i in range(n):
        T.tvm_thread_context(                ->         T.call_extern("int32", "f", c)
            T.call_extern("handle", "ctx", 0)))

In functions of the host only: those that are bound to a CPU.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, rewrite
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import nested
from mlcnb.tir.stmt import LetStmt
from mlcnb.tir.transform.device_regions import target_of


def combine_context_calls(func: PrimFunc) -> PrimFunc:
    """`func` with each context in a variable around the body, if it is known there."""
    known = {v for x in func.params for v in (x,)}
    known |= {v for b in func.buffers for v in undefined_vars(b)}
    contexts: list[tuple[Var, PrimExpr]] = []

    def rule(n: Node) -> Node | None:
        if not isinstance(n, Call) or n.op != "tir.tvm_thread_context":
            return None
        (context,) = n.args
        if any(v not in known for v in undefined_vars(context)):
            return None
        for var, value in contexts:
            if structural_equal(value, context):
                return var
        contexts.append((Var("ctx_cache_", context.dtype), context))
        return contexts[-1][0]

    body = rewrite(func.body, rule)
    lets = [LetStmt(var, value, body) for var, value in contexts]
    return func.with_body(nested(lets, body)) if lets else func


class CombineContextCall(PrimFuncPass):
    """Ask for each context of a device once, in functions of the host."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `combine_context_calls`."""
        target = target_of(func)
        return combine_context_calls(func) if target is not None and target.is_cpu else func
