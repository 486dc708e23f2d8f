"""UpdateParamStructInfo: parameters get other struct infos, and what follows from them is inferred.

UpdateParamStructInfo(lambda p: R.Tensor(p.struct_info.shape, "float16"))(mod)

def main(x: R.Tensor((4,), "float32"))     ->     def main(x: R.Tensor((4,), "float16"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import return_info, same_info
from mlcnb.relax.analysis.variables import topological_functions
from mlcnb.relax.expr import Function, Var
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import StructInfo


class UpdateParamStructInfo(ModulePass):
    """Ask a function for the struct info of each parameter.

    Shapes and dtypes of what follows, calls of other functions too, are inferred anew.

    sinfo_func: f(parameter) -> its new struct info, or None to keep it.

    Raises:
        PassError: there is no function to ask, or it gave no struct info.
        TypeInferError: an operator does not take a parameter as it is now.
    """

    sinfo_func: Callable[[Var], StructInfo | None] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions, callees first, so that calls are inferred from the new ones."""
        if self.sinfo_func is None:
            raise PassError(
                "UpdateParamStructInfo: no function to ask", hint="give f(var) -> struct info"
            )
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for key in topological_functions(mod):
            functions[key] = self._updated(functions[key], functions)
        return mod.with_functions(functions)

    def _updated(self, func: Function, functions: dict[GlobalVar, Any]) -> Function:
        new = {p: self._param(p) for p in func.params}
        changed = {old: p for old, p in new.items() if p is not old}
        mutator = Mutator(functions)
        mutator.remap.update(changed)
        made = mutator.rewrite(func)
        if not changed:
            return made
        params = tuple(new[p] for p in func.params)
        ret = return_info(params, made.body.struct_info)
        return replace(made, params=params, ret_struct_info=ret)

    def _param(self, param: Var) -> Var:
        info = self.sinfo_func(param)  # type: ignore[misc]
        if info is not None and not isinstance(info, StructInfo):
            raise PassError(
                f"UpdateParamStructInfo: {param.name_hint} was given {info!r}, no struct info",
                hint="R.Tensor(shape, dtype), or None to keep what it has",
            )
        if info is None or same_info(info, param.struct_info):
            return param
        return Var(param.name_hint, info, param.span)
