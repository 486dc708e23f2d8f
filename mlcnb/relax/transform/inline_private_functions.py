"""InlinePrivateFunctions: the body of a private graph function takes the place of its call.

def main(x):                              def main(x):
    gv = cls.twice(x)            ->           lv = R.add(x, x)
    return gv                                 return lv
@R.function(private=True)
def twice(x): return R.add(x, x)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import match_vars
from mlcnb.relax.analysis.variables import (
    all_global_vars,
    bindings_of,
    detect_recursion,
    topological_functions,
)
from mlcnb.relax.expr import Call, DataflowVar, Function, SeqExpr, Var
from mlcnb.relax.mutator import CallsOf, Renamer
from mlcnb.relax.transform.bind_symbolic_vars import bind_symbolic_vars
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions
from mlcnb.relax.transform.remove_unused_parameters import only_called


class InlinePrivateFunctions(ModulePass):
    """Inline graph functions without a global_symbol; recursive ones, kernels and functions that
    are handed around as values (closures) stay.

    Symbolic shapes of the callee are put in terms of the caller's. Nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Callees first, so that what is inlined has nothing left to inline."""
        circular = {k for group in detect_recursion(mod) for k in group}
        called = {g for f in mod.of_kind(Function).values() for g in all_global_vars(f)}
        private = {
            k
            for k, f in mod.of_kind(Function).items()
            if k in called and k not in circular and _is_private(f)
        }
        private = {k for k in private if only_called(mod, k)}
        if not private:
            return mod
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for key in topological_functions(mod):
            callees = {k: functions[k] for k in private}
            functions[key] = _Inliner(functions, callees).rewrite(functions[key])
        ctx.note(f"inlined {len(private)} functions")
        made = mod.with_functions({k: functions[k] for k in mod if k not in private})
        return remove_unused_functions(made.without_functions(private))


def inline_functions(func: Function, function_map: Mapping[Any, Function]) -> Function:
    """A graph function with bodies in place of the calls of others, given by name or GlobalVar.

    Raises:
        PassError: those call each other in a circle.
    """
    functions = {GlobalVar(getattr(k, "name_hint", k)): f for k, f in function_map.items()}
    for _ in range(len(functions) + 1):
        if functions.keys().isdisjoint(all_global_vars(func)):
            return func
        func = _Inliner(functions, functions).rewrite(func)
    raise PassError(
        "inline_functions: " + ", ".join(g.name_hint for g in functions) + " call each other",
        hint="leave out one that calls itself",
    )


def _is_private(func: Function) -> bool:
    return not func.attrs.keys() & {"global_symbol", "Primitive", "Codegen", "Composite"}


class _Inliner(CallsOf):
    def called(self, call: Call, told: Function, var: Var) -> Any:
        """The body, over new variables, with the arguments in place of the parameters."""
        symbols: dict[PrimVar, Any] = {}
        for param, arg in zip(told.params, call.args, strict=True):
            match_vars(param.struct_info, arg.struct_info, symbols)
        body = _copied(bind_symbolic_vars(told, symbols), call.args, self.emitter.dataflow)
        for binding in body.bindings:
            name = self.emitter.names.fresh(binding.var.name_hint)
            new = type(binding.var)(name, binding.var.struct_info, binding.var.span)
            self.remap[binding.var] = new
            self._append(replace(binding, var=new, value=self._inner(binding.value)))
        return self.substitute(body.body)


def _copied(func: Function, args: tuple[Any, ...], dataflow: bool) -> SeqExpr:
    """The body of a function with all its variables new, and arguments for parameters."""
    kind = DataflowVar if dataflow else Var
    outer = list(func.body.bindings)
    inner = [b for b in bindings_of(func) if b not in outer]
    new: dict[Var, Var] = {b.var: _copy(b.var, kind) for b in outer}
    new.update({b.var: _copy(b.var, type(b.var)) for b in inner})
    renamer = Renamer(new)
    renamer.remap.update(zip(func.params, args, strict=True))
    return renamer.rewrite(func).body


def _copy(var: Var, kind: type[Var]) -> Var:
    return kind(var.name_hint, var.struct_info, var.span)
