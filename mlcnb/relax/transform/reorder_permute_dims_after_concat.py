"""ReorderPermuteDimsAfterConcat: several transpositions that are joined become one of the whole.

at = R.permute_dims(a)                        ab = R.concat((a, b), axis=0)
bt = R.permute_dims(b)              ->        gv = R.permute_dims(ab)
gv = R.concat((at, bt), axis=1)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.manipulate.join import Concat
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Function, Tuple, Var
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.transform.written_out import Reader, order_of, rewritten


class ReorderPermuteDimsAfterConcat(FunctionPass):
    """Join first and transpose once, where all parts are transposed the same way.

    Of any shapes and dtypes that concat takes, the ranks known; parts in different orders stay,
    nothing is refused.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every concat of two or more transposed tensors."""
        return rewritten(func, _Reorderer(mod.functions), ctx, "transpositions after the join")


class _Reorderer(Reader):
    @rule("ReorderPermuteDimsAfterConcat", "join_first")
    def visit_call(self, call: Call, var: Var) -> Any:
        """permute_dims of the concat along the axis that the old one came from."""
        if called(call) is not Concat:
            return None
        parts, attrs = self.value_of(call.args[0]), attrs_of(call)
        axis: Any = attrs.axis  # type: ignore[attr-defined]
        fields = parts.fields if isinstance(parts, Tuple) else ()
        moved = [self.call_of(f, PermuteDims) for f in fields]
        if len(moved) < 2 or None in moved or axis is None:
            return None
        if any(m.args[0].struct_info.ndim < 1 for m in moved):
            return None
        orders = {order_of(m) for m in moved}
        if len(orders) != 1:
            return None
        (order,) = orders
        self.found += 1
        inner = tuple(m.args[0] for m in moved)
        joined = op.concat(inner, axis=order[axis % len(order)])
        return Call(moved[0].op, (joined,), moved[0].attrs)
