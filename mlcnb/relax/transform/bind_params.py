"""BindParams: parameters become constants.

def main(x, w):                          def main(x):
    gv = R.matmul(x, w)        ->            gv = R.matmul(x, metadata["relax.expr.Constant"][0])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    match_vars,
    struct_info_base_check,
)
from mlcnb.relax.expr import Constant, Expr, Function, Var, const
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import describe
from mlcnb.relax.transform.bind_symbolic_vars import bind_symbolic_vars


class BindParams(ModulePass):
    """Put constants in place of parameters of one function.

    A value is an array (NumPy, Tensor, torch on the CPU) of the parameter's dtype and shape; sizes
    that it defines are put in everywhere.

    Raises:
        PassError: there is no such function or parameter, or a value does not fit.
    """

    func_name: str = "main"
    #: parameter name (or Var) -> array or Constant
    params: Mapping[Any, Any] = field(default_factory=dict)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The function without those parameters."""
        if self.func_name not in mod:
            raise PassError(f"BindParams: no function {self.func_name!r} in the module", root=mod)
        made = bind_params(mod[self.func_name], self.params)
        ctx.note(f"bound {len(self.params)} parameters of {self.func_name}")
        return mod.with_function(self.func_name, made)


def bind_params(func: Function, params: Mapping[Any, Any]) -> Function:
    """`func` with constants in place of the parameters named in `params`.

    Symbolic dimensions that a constant's shape defines are bound too.

    Raises:
        PassError: there is no such parameter, or a value does not fit its struct info.
    """
    values = {_param(func, key): _constant(value) for key, value in params.items()}
    if not values:
        return func
    symbols: dict[PrimVar, Any] = {}
    for param, value in values.items():
        _check(param, value)
        match_vars(param.struct_info, value.struct_info, symbols)
    kept = tuple(p for p in func.params if p not in values)
    binder = Mutator()
    binder.remap.update(values)
    made = binder.rewrite(func)
    attrs = dict(made.attrs)
    if "num_input" in attrs:
        attrs["num_input"] = min(attrs["num_input"], len(kept))
    made = replace(made, params=kept, attrs=type(made.attrs)(attrs))
    return bind_symbolic_vars(made, symbols) if symbols else made


def _param(func: Function, key: Any) -> Var:
    for param in func.params:
        if key is param or key == param.name_hint:
            return param
    names = ", ".join(p.name_hint for p in func.params)
    name = key.name_hint if isinstance(key, Var) else key
    raise PassError(f"BindParams: no parameter {name!r}", root=func, hint=f"there are {names}")


def _constant(value: Any) -> Constant:
    if isinstance(value, Constant):
        return value
    if isinstance(value, Expr):
        raise PassError(f"BindParams: {kind_of(value)} is no array")
    return const(value.numpy() if hasattr(value, "numpy") else np.asarray(value))


def _check(param: Var, value: Constant) -> None:
    info = param.struct_info
    if info is not None and struct_info_base_check(info, value.struct_info) is _NEVER:
        raise PassError(
            f"BindParams: {param.name_hint} is {describe(info)}, the value is "
            f"{describe(value.struct_info)}"
        )


_NEVER = BaseCheckResult.FAIL_L0
