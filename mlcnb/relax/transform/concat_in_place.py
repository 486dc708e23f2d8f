"""ConcatInPlace: concatenations that need not copy are kept out of fusion.

a = R.call_tir(cls.conv, …)                     @T.prim_func
b = R.call_tir(cls.conv1, …)             ->     def concat(A, B, C):
c = R.call_tir(cls.concat, (a, b), …)               T.func_attr({"op_pattern": 8})      # opaque
d = R.call_tir(cls.relu, (c,), …)                   …

Where the operands lie in the result one after the other, and all are made by this function, the
memory plan lets them be made where they belong (`memory_plan`), and `concat` is never called.
Fused with what follows it would read each element under a test of where it comes from.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.text import plural
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.expr import Call, DataflowVar, Function, Op, Var
from mlcnb.tir.analysis import OpPatternKind
from mlcnb.tir.analysis.joining import joined_at
from mlcnb.tir.function import PrimFunc


class ConcatInPlace(ModulePass):
    """Give such loop functions the fusion kind `opaque`.

    The operands, of any shape and dtype, are results of other calls of the same dataflow block,
    each given once. Nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The callees of call_tirs whose operands are results of calls."""
        changed = {}
        for func in mod.of_kind(Function).values():
            for key in _candidates(func):
                callee = mod.functions.get(key)
                if isinstance(callee, PrimFunc) and joined_at(callee) is not None:
                    changed[key] = callee.with_attr("op_pattern", int(OpPatternKind.OPAQUE))
        if not changed:
            return mod
        ctx.note(f"{plural(len(changed), 'concatenation')} whose operands may be made in place")
        return mod.with_functions(changed)


def _candidates(func: Function) -> set[Any]:
    """What is called inside on several results of calls, each given once."""
    made, found = set(), set()
    for binding in func.body.bindings:
        value: Any = getattr(binding, "value", None)
        if not isinstance(value, Call):
            continue
        made.add(binding.var)
        if not isinstance(value.op, Op) or value.op.name != "relax.call_tir":
            continue
        operands = getattr(value.args[1], "fields", ())
        apart = len(operands) > 1 and len(set(operands)) == len(operands)
        inside = isinstance(binding.var, DataflowVar)
        if inside and apart and all(isinstance(x, Var) and x in made for x in operands):
            found.add(value.args[0])
    return found
