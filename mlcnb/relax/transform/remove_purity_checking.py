"""RemovePurityChecking: from here on effects may stand anywhere.

@R.function                                  @R.function
def main(x):                                 def main(x):
    R.func_attr({…})               ->            R.func_attr({"relax.force_pure": True, …})
    lv = R.call_pure_packed("f", x)              lv = R.call_packed("f", x)
    lv1 = R.invoke_pure_closure(c, (lv,))        lv1 = R.invoke_closure(c, (lv,))
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.expr import Call, Function, Op, Var
from mlcnb.relax.mutator import Mutator


class RemovePurityChecking(FunctionPass):
    """Mark pure functions so that calls with effects are allowed in them, and unwrap pure calls.

    Nothing is refused from then on: an effect in a pure function, which `well_formed` would find,
    is taken on trust.

    Local functions are marked too; shapes and dtypes stay.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function, marked; pure calls of packed functions and closures become plain ones."""
        return _marked(_Unwrap(mod.functions).rewrite(func))


def _marked(func: Function) -> Function:
    """A function that is pure whatever it calls."""
    if not func.is_pure or func.attrs.get("relax.force_pure"):
        return func
    return replace(func, attrs=FrozenDict({**func.attrs, "relax.force_pure": True}))


class _Unwrap(Mutator):
    def _function(self, func: Function) -> Function:
        made = super()._function(func)
        return made if func is self.func else _marked(made)

    def visit_call(self, call: Call, var: Var) -> Any:
        """`R.call_pure_packed(f, x)` -> `f(x)`; a closure is called as any."""
        name = call.op.name if isinstance(call.op, Op) else ""
        if name == "relax.invoke_pure_closure":
            return replace(call, op=Op("relax.invoke_closure"))
        if name != "relax.call_pure_packed":
            return None
        return Call(call.args[0], call.args[1:], None, call.sinfo_args, call.struct_info, call.span)
