"""RemoveRedundantReshape: reshapes that change nothing go, and of two in a row only the last stays.

lv = R.reshape(x, (1, 6))                     gv = R.reshape(x, (3, 2))
gv = R.reshape(lv, (3, 2))          ->
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Function, Var
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.written_out import Reader, rewritten


class RemoveRedundantReshape(FunctionPass):
    """Read through reshapes of reshapes; drop those that give the shape that was there.

    A reshape of a shape that is not known stays; none is refused.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every reshape."""
        return rewritten(func, _Reshapes(mod.functions), ctx, "reshapes less")


class _Reshapes(Reader):
    @rule("RemoveRedundantReshape", "last_counts")
    def visit_call(self, call: Call, var: Var) -> Any:
        """The operand itself, or a reshape of what was reshaped before."""
        if called(call) is not Reshape:
            return None
        source: Any = call.args[0]
        inner = self.call_of(source, Reshape)
        while inner is not None:
            source = inner.args[0]
            inner = self.call_of(source, Reshape)
        info = call.struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        if same_known(source.struct_info, info):
            self.found += 1
            return source
        if source is call.args[0]:
            return None
        self.found += 1
        return op.reshape(source, info.shape)
