"""AttachAttrLayoutFreeBuffers: loop functions say which of their buffers may lie as they like.

lv = R.call_tir(cls.matmul, (x, w), …)     ->     lv = R.call_tir(cls.matmul1, (x, w), …)
                                                  matmul1: T.func_attr({"layout_free_buffers": [1]})

A weight or a constant lies in a layout that nobody outside sees, so that tuning may change it
(`meta_schedule`'s RewriteLayout) and the change be made once, before the model runs.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.calls import callee_of
from mlcnb.relax.expr import Call, Constant, Function, Tuple, Var
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions

#: the attribute: places of parameters, counted from 0
ATTRIBUTE = "layout_free_buffers"


class AttachAttrLayoutFreeBuffers(ModulePass):
    """Mark the buffers of weights and constants in the loop functions that read them.

    Numbers of buffers, tensors of any shape and dtype; a function that is called on weights here
    and on other tensors there gets a copy for the weights. Nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every call_tir: weights are the parameters after the first `num_input`."""
        table = FunctionTable(mod.functions)
        table.rewrite(lambda func: _Marker(table, func).rewrite(func))
        made = len(table.functions) - len(mod)
        if not made:
            return mod
        ctx.note(f"{made} loop functions with buffers free to lie as they like")
        return remove_unused_functions(table.module(mod))


class _Marker(Mutator):
    def __init__(self, table: FunctionTable, func: Function) -> None:
        super().__init__(table.functions)
        self.table = table
        count = int(func.attrs.get("num_input", len(func.params)))
        self.weights = set(func.params[count:])

    def visit_call(self, call: Call, var: Var) -> Any:
        """The call of a copy of its function that says which buffers are weights."""
        func = callee_of(call, self.functions)
        if func is None or not isinstance(given := call.args[1], Tuple):
            return None
        free = [i for i, a in enumerate(given.fields) if self.is_free(a)]
        if not free or list(func.attrs.get(ATTRIBUTE, ())) == free:
            return None
        marked = func.without_attr("global_symbol").with_attr(ATTRIBUTE, tuple(free))
        key: Any = call.args[0]
        name: Any = self.table.add_shared(marked, key.name_hint)
        return replace(call, args=(name, *call.args[1:]))

    def is_free(self, x: Any) -> bool:
        """True for a weight or a constant tensor."""
        return isinstance(x, Constant) or x in self.weights
