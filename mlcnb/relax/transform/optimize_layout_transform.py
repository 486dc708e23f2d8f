"""OptimizeLayoutTransform: a layout that is changed and changed back is not changed at all.

a = R.layout_transform(x, src="NCHW", dst="NCHW4c")
b = R.layout_transform(a, src="NCHW4c", dst="NCHW")        ->        gv = R.nn.relu(x)
gv = R.nn.relu(b)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.analysis.struct_info import same_info
from mlcnb.relax.expr import Call, Function, Op, Var
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform.written_out import Reader, rewritten


class OptimizeLayoutTransform(FunctionPass):
    """Drop changes of layout that undo each other, and those to the layout that is there."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every layout_transform."""
        return rewritten(func, _Layouts(mod.functions), ctx, "changes of layout undone")


class _Layouts(Reader):
    @rule("OptimizeLayoutTransform", "undone")
    def visit_call(self, call: Call, var: Var) -> Any:
        """What was there before, where shape and layout are the same again."""
        if not isinstance(call.op, Op) or call.op.name != "relax.layout_transform":
            return None
        attrs: Any = attrs_of(call)
        source: Any = call.args[0]
        layout = attrs.src
        before = self.call_of(source, "layout_transform")
        if attrs.dst != layout and before is not None:
            source, layout = before.args[0], attrs_of(before).src  # type: ignore[attr-defined]
        if layout != attrs.dst or not same_info(source.struct_info, call.struct_info):
            return None
        self.found += 1
        return source
