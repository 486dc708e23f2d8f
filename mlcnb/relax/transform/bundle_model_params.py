"""BundleModelParams: all weights of a function become one tuple.

def main(x, w, b):                             def main(x, model_params):
    R.func_attr({"num_input": 1})                  w = model_params[0]
    y = R.matmul(x, w)                   ->        y = R.matmul(x, w)
    gv = R.add(y, b)                               b = model_params[1]
                                                   gv = R.add(y, b)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.analysis.variables import value_uses
from mlcnb.relax.emitter import Names, block_is_dataflow
from mlcnb.relax.expr import Function, TupleGetItem, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import ObjectStructInfo, TupleStructInfo


class BundleModelParams(FunctionPass):
    """Take the parameters after the first `num_input` as one tuple.

    Each keeps its shape and dtype as a field of the tuple. Functions without the attribute
    `num_input` stay as they are, none is refused.

    param_tuple_name: the tuple's name; `model_params` where it is None.
    """

    param_tuple_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Functions that say how many of their parameters are inputs."""
        if "num_input" not in func.attrs:
            return func
        count = int(func.attrs["num_input"])
        inputs, weights = func.params[:count], func.params[count:]
        if len(weights) == 1 and isinstance(weights[0].struct_info, TupleStructInfo):
            return func
        info = TupleStructInfo(tuple(w.struct_info or ObjectStructInfo() for w in weights))
        name = Names(p.name_hint for p in inputs).fresh(self.param_tuple_name or "model_params")
        params = Var(name, info)
        made = _Reader(mod.functions, {w: (params, i) for i, w in enumerate(weights)}).rewrite(func)
        return replace(made, params=(*inputs, params))


class _Reader(Mutator):
    """Reads a parameter from the tuple before the first binding that uses it."""

    def __init__(self, functions: Functions, places: dict[Var, tuple[Var, int]]) -> None:
        super().__init__(functions)
        self.places = places

    def substitute(self, value: Any) -> Any:
        """The value, its weights read from the tuple right before."""
        for used in value_uses(value):
            if used in self.places and used not in self.remap:
                params, index = self.places[used]
                self.emitter.names.release(used.name_hint)
                self.remap[used] = self.emit(TupleGetItem(params, index), used.name_hint)
        return super().substitute(value)

    def _sequence(self, seq: Any) -> Any:
        """What is read inside of a branch is not seen outside of it."""
        before = self._read()
        made = super()._sequence(seq)
        self._forget(before)
        return made

    def visit_block(self, block: Any) -> Any:
        """What is read inside of a dataflow block is not seen outside of it."""
        before = self._read()
        made = super().visit_block(block)
        if block_is_dataflow(block):
            self._forget(before)
        return made

    def _read(self) -> set[Var]:
        return self.places.keys() & self.remap.keys()

    def _forget(self, kept: set[Var]) -> None:
        for var in self._read() - kept:
            del self.remap[var]
