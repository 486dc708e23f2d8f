"""ExpandTupleArguments: private functions take the fields of a tuple one by one.

t = (x, y)                                   gv = cls.add(x, y)
gv = cls.add(t)                       ->
@R.function(private=True)                    @R.function(private=True)
def add(p): return R.add(p[0], p[1])         def add(p_0, p_1): return R.add(p_0, p_1)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.variables import bound_vars
from mlcnb.relax.emitter import Names
from mlcnb.relax.mutator import CallsOf
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.transform.canonicalize_bindings import canonicalize_bindings
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings
from mlcnb.relax.transform.remove_unused_parameters import only_called


class ExpandTupleArguments(ModulePass):
    """Give private graph functions a parameter for each field of their tuples.

    A field of a tuple in a tuple is a parameter too; each keeps its shape and dtype. Public
    functions, and those that are handed around as values, stay; nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Functions without a global_symbol that have a parameter that is a tuple."""
        chosen = [k for k, f in mod.items() if _has_tuples(f) and only_called(mod, k)]
        if not chosen:
            return mod
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        wanted = {key: [p.struct_info for p in functions[key].params] for key in chosen}
        for key in chosen:
            functions[key] = _expanded(functions[key])
        for key, func in functions.items():
            if isinstance(func, rx.Function):
                called = _Caller(functions, wanted).rewrite(func)
                if called is not mod.functions[key]:
                    tidy = canonicalize_bindings(called)
                    functions[key] = remove_unused_bindings(tidy, functions)
        ctx.note(f"{len(chosen)} functions take fields in place of tuples")
        return mod.with_functions(functions)


def _has_tuples(func: Any) -> bool:
    private = isinstance(func, rx.Function) and "global_symbol" not in func.attrs
    return private and any(isinstance(p.struct_info, TupleStructInfo) for p in func.params)


def _expanded(func: rx.Function) -> rx.Function:
    """The function on fields, which puts its tuples together again first."""
    names = Names(v.name_hint for v in bound_vars(func))
    params: list[rx.Var] = []
    bindings: list[rx.VarBinding] = []

    def expand(var: rx.Var) -> rx.Var:
        info = var.struct_info
        if not isinstance(info, TupleStructInfo):
            params.append(var)
            return var
        parts = [
            expand(rx.Var(names.fresh(f"{var.name_hint}_{i}"), f))
            for i, f in enumerate(info.fields)
        ]
        bindings.append(rx.VarBinding(var, rx.Tuple(tuple(parts))))
        return var

    for param in func.params:
        expand(param)
    blocks = (rx.BindingBlock(tuple(bindings)), *func.body.blocks)
    return replace(func, params=tuple(params), body=rx.SeqExpr(blocks, func.body.body))


class _Caller(CallsOf):
    def called(self, call: rx.Call, told: list[Any], var: rx.Var) -> Any:
        """The call with the fields of its tuples; told: what the parameters were."""
        pairs = zip(call.args, told, strict=True)
        args = [leaf for arg, info in pairs for leaf in self.fields(arg, info)]
        return rx.Call(call.op, tuple(args), call.attrs, call.sinfo_args, None, call.span)

    def fields(self, arg: Any, info: Any) -> list[Any]:
        """The leaves of an argument, read out of it where it is no tuple written down."""
        if not isinstance(info, TupleStructInfo):
            return [arg]
        whole = self.value_of(arg)
        if isinstance(whole, rx.Tuple):
            parts: Any = whole.fields
        else:
            parts = [self.emit(rx.TupleGetItem(arg, i)) for i in range(len(info.fields))]
        pairs = zip(parts, info.fields, strict=True)
        return [leaf for part, field in pairs for leaf in self.fields(part, field)]
