"""CallTIRRewrite: calls of loop functions get the memory that they write to.

lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32"))
->
alloc = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
_ = cls.relu(x, alloc)
lv = alloc
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.ir.expr import GlobalVar
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Op, PrimValue, ShapeExpr, Tuple, Var
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo, parts_of
from mlcnb.relax.transform.written_out import CallPass, Reader

_DESTINATION_PASSING = ("relax.call_tir", "relax.call_dps_packed", "relax.call_tir_inplace")


class CallTIRRewrite(CallPass):
    """Allocate the results of call_tir and call_dps_packed, and call with them.

    A result is allocated in the shape and dtype that `out_sinfo` says.

    Raises:
        PassError: a call stands in a dataflow block, or the shape or dtype of a result is not
            known.
    """


class _Allocator(Reader, of=CallTIRRewrite):
    def visit_call(self, call: Call, var: Var) -> Any:
        """alloc_tensor for each result, the call, then the results."""
        if not isinstance(call.op, Op) or call.op.name not in _DESTINATION_PASSING:
            return None
        if self.emitter.dataflow:
            raise PassError(
                "CallTIRRewrite: a call_tir stands in a dataflow block, where nothing may be "
                "written to",
                where=call,
                root=self.func,
                hint="run ToNonDataflow before",
            )
        args: Any = call.args[1]
        scalars: Any = call.args[2] if len(call.args) > 2 else ShapeExpr(())
        inplace = _inplace_indices(call)
        results = [
            self.allocated(info) if place < 0 else args.fields[place]
            for info, place in zip(parts_of(call.sinfo_args[0]), inplace, strict=True)
        ]
        written = [r for r, place in zip(results, inplace, strict=True) if place < 0]
        values = (*args.fields, *written, *(PrimValue(v) for v in scalars.values))
        nothing = TupleStructInfo(())
        given = () if isinstance(call.args[0], GlobalVar) else (nothing,)
        self.emit(Call(call.args[0], values, None, given, nothing, call.span), "_")
        is_tuple = isinstance(call.sinfo_args[0], TupleStructInfo)
        return Tuple(tuple(results)) if is_tuple else results[0]

    def allocated(self, info: Any) -> Var:
        """A variable that holds a new tensor.

        Raises:
            PassError: its shape or dtype is not known.
        """
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
            raise PassError(
                "CallTIRRewrite: a result of unknown shape or dtype cannot be allocated",
                root=self.func,
            )
        return self.emit(op.builtin.alloc_tensor(ShapeExpr(info.dims), info.dtype), "alloc")


def _inplace_indices(call: Call) -> tuple[int, ...]:
    if call.op.name == "relax.call_tir_inplace":  # type: ignore[union-attr]
        return call.attrs["inplace_indices"]
    return (-1,) * len(parts_of(call.sinfo_args[0]))
