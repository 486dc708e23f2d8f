"""RemovePurityChecking: from here on effects may stand anywhere.

@R.function                                  @R.function
def main(x):                                 def main(x):
    R.func_attr({…})               ->            R.func_attr({"relax.force_pure": True, …})
    lv = R.call_pure_packed("f", x)              lv = R.call_packed("f", x)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.expr import Call, Function, Op, Var
from mlcnb.relax.mutator import Mutator


class RemovePurityChecking(FunctionPass):
    """Mark pure functions so that calls with effects are allowed in them, and unwrap pure calls."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function, marked; `call_pure_packed` becomes `call_packed`."""
        made = _Unwrap(mod.functions).rewrite(func)
        if not made.is_pure or made.attrs.get("relax.force_pure"):
            return made
        return replace(made, attrs=FrozenDict({**made.attrs, "relax.force_pure": True}))


class _Unwrap(Mutator):
    def visit_call(self, call: Call, var: Var) -> Any:
        """`R.call_pure_packed(f, x)` -> `f(x)`."""
        if not isinstance(call.op, Op) or call.op.name != "relax.call_pure_packed":
            return None
        return Call(call.args[0], call.args[1:], None, call.sinfo_args, call.struct_info, call.span)
