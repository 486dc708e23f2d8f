"""LambdaLift: local functions become private functions of the module.

def main(x, y):                                 def main(x, y):
    @R.function                                     gv = cls.main_inner(x, y)
    def inner(a, b): return R.add(a, b)   ->    @R.function(private=True)
    gv = inner(x, y)                            def main_inner(a, b): return R.add(a, b)

A local function that reads variables from around it takes them as further parameters; where it
stood, `R.make_closure(cls.main_inner, (x,))` holds them, and is called by R.invoke_pure_closure.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import bindings_of, free_symbolic_vars, free_vars
from mlcnb.relax.expr import Binding, Call, Function, Op, Tuple, Var
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import FuncStructInfo, ObjectStructInfo, StructInfo
from mlcnb.relax.transform.bind_symbolic_vars import bind_symbolic_vars


class LambdaLift(ModulePass):
    """Move the functions that stand inside of functions into the module.

    Sizes that such a function speaks of have to follow from the shapes of what it is handed.

    Raises:
        PassError: a local function speaks of a size that none of its parameters tells.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions; a lifted one is named by where it stood, `main_inner`."""
        table = FunctionTable(mod.functions)
        for key, func in mod.of_kind(Function).items():
            if any(isinstance(b.value, Function) for b in bindings_of(func)):
                table.set(key, _Lifter(table, key.name_hint).rewrite(func))
        made = len(table.functions) - len(mod)
        if made:
            ctx.note(f"{made} local functions lifted")
        return table.module(mod)


class _Lifter(Mutator):
    """Lifts the local functions of one function; `parent` begins their names."""

    def __init__(self, table: FunctionTable, parent: str) -> None:
        super().__init__(table.functions)
        self.table, self.parent = table, parent
        #: variables that hold closures
        self.closures: set[Var] = set()
        #: the function that is lifted here, what calls it from inside, and what it captured
        self.own: tuple[Var, GlobalVar, tuple[Var, ...]] | None = None

    def _binding(self, binding: Binding) -> None:
        if isinstance(binding.value, Function):
            self.lift(binding.var, binding.value)
        else:
            super()._binding(binding)

    def lift(self, var: Var, func: Function) -> None:
        """The function into the module; what it captured into a closure."""
        outside = [v for v in free_vars(func) if v is not var]
        captured = [v for v in outside if isinstance(self.substitute(v), Var)]
        inner_params = tuple(Var(v.name_hint, self._info(v)) for v in captured)
        params = (*func.params, *inner_params)
        whole = replace(func.without_attr("global_symbol"), params=params)
        key = GlobalVar(self._free_name(f"{self.parent}_{var.name_hint}"))
        self.table.set(key, whole)
        inner = _Lifter(self.table, self.parent)
        inner.remap.update({v: n for v, n in self.remap.items() if isinstance(n, GlobalVar)})
        inner.remap.update(zip(captured, inner_params, strict=True))
        inner.closures = {p for v, p in zip(captured, inner_params, strict=True) if self._holds(v)}
        if captured:
            inner.own = (var, key, inner_params)
        else:
            inner.remap[var] = key
        made = inner.rewrite(whole)
        _check_sizes(key, made)
        self.table.set(key, _with_own_sizes(made))
        if not captured:
            self.remap[var] = key
            return
        held = Tuple(tuple(self.substitute(v) for v in captured))
        any_object = ObjectStructInfo()
        parts: tuple[Any, ...] = (key, held)
        call = Call(Op("relax.make_closure"), parts, None, (), any_object)
        self.remap[var] = self.emit(call, var.name_hint)
        self.closures.add(self.remap[var])

    def _info(self, var: Var) -> StructInfo | None:
        new = self.substitute(var)
        return ObjectStructInfo() if new in self.closures else new.struct_info

    def _holds(self, var: Var) -> bool:
        return self.substitute(var) in self.closures

    def _free_name(self, name: str) -> str:
        taken, number, found = self.table.names.taken, 0, name
        while found in taken:
            found = f"{name}_{number}"
            number += 1
        return found

    def visit_call(self, call: Call, var: Var) -> Any:
        """Calls of closures, and of the function itself from inside."""
        op = call.op
        if self.own is not None and op is self.own[0]:
            return Call(self.own[1], (*call.args, *self.own[2]), None, (), None, call.span)
        if not isinstance(op, Var) or op in self.func.params and op not in self.closures:
            return None
        if op not in self.closures and not isinstance(op.struct_info, ObjectStructInfo):
            return None
        pure = getattr(self._old_info(op), "purity", True)
        name = "relax.invoke_pure_closure" if pure else "relax.invoke_closure"
        info: Any = var.struct_info or ObjectStructInfo()
        return Call(Op(name), (op, Tuple(call.args)), None, (info,), info, call.span)

    def _old_info(self, var: Var) -> Any:
        """What the variable was before it became a closure."""
        for old, new in self.remap.items():
            if new is var and isinstance(old.struct_info, FuncStructInfo):
                return old.struct_info
        return var.struct_info


def _with_own_sizes(func: Function) -> Function:
    """The function with sizes of its own: it shared those of the function around it."""
    sizes = {v: type(v)(v.name, v.dtype) for p in func.params for v in symbolic_vars(p.struct_info)}
    return bind_symbolic_vars(func, sizes) if sizes else func


def _check_sizes(key: GlobalVar, func: Function) -> None:
    known = {v for p in func.params for v in definable_vars(p.struct_info)}
    unknown = [v for v in free_symbolic_vars(func) if v not in known]
    if unknown:
        raise PassError(
            f"LambdaLift: {key.name_hint} speaks of the size {unknown[0].name}, which none of its "
            "parameters tells",
            where=func,
            hint="hand over a tensor or R.Shape of that size",
        )
