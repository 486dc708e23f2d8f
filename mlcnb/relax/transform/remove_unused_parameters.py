"""RemoveUnusedParameters: parameters of private functions that they do not read go.

gv = cls.helper(x, y)                      gv = cls.helper(x)
@R.function(private=True)          ->      @R.function(private=True)
def helper(a, b): return R.exp(a)          def helper(a): return R.exp(a)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import all_global_vars, bindings_of, use_counts
from mlcnb.relax.expr import Call, Function, Var
from mlcnb.relax.mutator import CallsOf


class RemoveUnusedParameters(ModulePass):
    """Drop parameters that private graph functions do not use, here and in the calls.

    A parameter whose shape alone tells a size that is used stays. Functions that are handed around
    as values stay, nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Functions without a global_symbol; a parameter that alone defines a dimension stays."""
        kept: dict[GlobalVar, list[int]] = {}
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for key, func in mod.of_kind(Function).items():
            if "global_symbol" not in func.attrs:
                places = _needed(func)
                if len(places) < len(func.params) and only_called(mod, key):
                    kept[key] = places
                    functions[key] = replace(func, params=tuple(func.params[i] for i in places))
        if not kept:
            return mod
        for key, func in functions.items():
            if isinstance(func, Function):
                functions[key] = _Caller(functions, kept).rewrite(func)
        ctx.note(f"{len(kept)} functions take fewer arguments")
        return mod.with_functions(functions)


class _Caller(CallsOf):
    def called(self, call: Call, told: list[int], var: Var) -> Any:
        """The arguments that are still taken."""
        if len(call.args) == len(told):
            return None
        return replace(call, args=tuple(call.args[i] for i in told))


def _needed(func: Function) -> list[int]:
    """Places of the parameters that are used, or that define a symbolic variable in use."""
    used = use_counts(func)
    mentioned = {v for b in bindings_of(func) for v in symbolic_vars(b.var.struct_info)}
    mentioned.update(symbolic_vars(func.ret_struct_info))
    places = [i for i, param in enumerate(func.params) if used.get(param)]
    defined = {v for i in places for v in definable_vars(func.params[i].struct_info)}
    for i, param in enumerate(func.params):
        defines = set(definable_vars(param.struct_info)) & mentioned
        if i not in places and defines - defined:
            places.append(i)
            defined |= defines
    return sorted(places)


def only_called(mod: IRModule, key: GlobalVar) -> bool:
    """True where the function is never handed around as a value."""
    for func in mod.of_kind(Function).values():
        if key in all_global_vars(func):
            calls = [b.value for b in bindings_of(func) if isinstance(b.value, Call)]
            if any(key in call.args for call in calls) or func.body.body == key:
                return False
    return True
