"""DataflowUseInplaceCalls: an operator element by element writes over an operand that dies there.

a = R.add(x, y)                 a = R.add(x, y)
b = R.exp(a)            ->      b = R.call_tir_inplace(cls.exp_inplace, (a,),
gv = R.add(b, x)                                       out_sinfo=…, inplace_indices=[0])
                                gv = R.add(b, x)

Only tensors that the dataflow block itself made and that nobody reads later are written over:
never an argument of the function, a constant, a part of a tuple, what leaves the block, or what an
operator reads that may become a view of it. After this pass a tensor has several values in its
life: passes that share values (EliminateCommonSubexpr, SimplifyOps) come before it.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import CodegenError, UnsupportedOpError
from mlcnb.core.node import replace, rewrite
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.analysis.variables import leaves, value_uses
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.te_call import te_call
from mlcnb.relax.transform.written_out import Reader, TablePass
from mlcnb.tir.function import PrimFunc


class DataflowUseInplaceCalls(TablePass, says="operators write in place", quiet=True):
    """Let elementwise operators write into an operand that is used for the last time.

    The operand has the shape and dtype of the result, is made in the same dataflow block, and is no
    argument, constant or result. Other calls allocate as before, nothing is refused.
    """

    but = ("Codegen",)


class _Writer(Reader, of=DataflowUseInplaceCalls):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        #: variables of the block that may be written over -> the binding that uses them last
        self.dying: dict[rx.Var, rx.Var] = {}

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A dataflow block with what may be written over in it known."""
        self.dying = _own_tensors(block) if block_is_dataflow(block) else {}
        return super().visit_block(block)

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The call in place, where an operand dies in it that has the result's shape and dtype."""
        if not called(call).elementwise or not self.emitter.dataflow:
            return None
        old = self._original(call)
        places = [
            i
            for i, (arg, was) in enumerate(zip(call.args, old, strict=True))
            if self.dying.get(was) is var and same_known(arg.struct_info, call.struct_info)
        ]
        if not places or sum(a is call.args[places[0]] for a in call.args) > 1:
            return None
        return self._in_place(call, places[0])

    def _original(self, call: rx.Call) -> list[Any]:
        """The operands by the variables that they were before they were replaced."""
        back = {id(new): old for old, new in self.remap.items()}
        return [back.get(id(a), a) for a in call.args]

    def _in_place(self, call: rx.Call, place: int) -> rx.Call | None:
        """The call in place; None where it has no such loops."""
        made = in_place(self.table, call, place)
        self.found += made is not None
        return made


def in_place(table: FunctionTable, call: rx.Call, place: int) -> rx.Call | None:
    """call_tir_inplace of an operator's loops, kept in the table, with its result in the place of
    an operand of its shape and dtype; None where it has no loops of known sizes.
    """
    try:
        made = te_call(attrs_of(call).compute, call.args, {})
    except (CodegenError, UnsupportedOpError):
        return None
    if made.tir_vars or len(made.args) != len(call.args):
        return None
    func = _writing_over(made.func.without_attr("global_symbol"), place)
    short = call.op.name.rpartition(".")[2]  # type: ignore[union-attr]
    key = table.add_shared(func, f"{short}_inplace")
    return rx.call_tir_inplace(key, made.args, [place], call.struct_info)


def _own_tensors(block: rx.BindingBlock) -> dict[rx.Var, rx.Var]:
    """Local tensors that a call made for itself, each with the variable that uses it last."""
    last: dict[rx.Var, rx.Var] = {}
    for binding in block.bindings:
        value = binding.value
        for used in value_uses(value):
            if used in last:
                last[used] = binding.var
        if not _only_reads(value):
            for used in leaves(value):
                last.pop(used, None)
        if isinstance(binding.var, rx.DataflowVar) and _makes_new(value):
            last[binding.var] = binding.var
    return {v: user for v, user in last.items() if user is not v}


def _only_reads(value: Any) -> bool:
    """Whether the result shares no memory with an operand, whatever the operator becomes."""
    return called(value).elementwise or called(value) is Matmul


def _makes_new(value: Any) -> bool:
    """Whether the result is a tensor in memory of its own."""
    info = getattr(value, "struct_info", None)
    return isinstance(info, TensorStructInfo) and _only_reads(value)


def _writing_over(func: PrimFunc, place: int) -> PrimFunc:
    """The loops with the last buffer, the result, as the buffer of an operand."""
    *params, out = func.params
    target, source = func.buffer_map[params[place]], func.buffer_map[out]

    def swap(n: Any) -> Any:
        if n is source:
            return target
        return target.data if isinstance(n, PrimVar) and n is source.data else None

    body = rewrite(func.body, lambda n: None, enter=swap)
    kept = {p: b for p, b in func.buffer_map.items() if p is not out}
    return replace(func, params=tuple(params), buffer_map=type(func.buffer_map)(kept), body=body)
