"""BindSymbolicVars: symbolic dimensions become numbers.

def main(x: R.Tensor(("n", 4))):    BindSymbolicVars({"n": 2})    def main(x: R.Tensor((2, 4))):
    lv: R.Tensor((n, 4)) = …                  ->                      lv: R.Tensor((2, 4)) = …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, identical, replace
from mlcnb.ir import prim_ops
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import substitute, symbolic_vars
from mlcnb.relax.analysis.variables import defined_symbolic_vars, free_symbolic_vars
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator


class BindSymbolicVars(ModulePass):
    """Put numbers (or expressions) in place of symbolic dimensions.

    Every shape is inferred anew, so that sizes made of these are numbers too. Values are cast to
    the variable's dtype, int64.

    Raises:
        PassError: no function has a symbolic variable of a given name.
    """

    #: name of a symbolic variable (or the variable) -> its value
    binding_map: Mapping[Any, Any] = field(default_factory=dict)
    #: only in the function of this name; None: in all that have such a variable
    func_name: str | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The functions with the values put in."""
        changed = {}
        missing = set(self.binding_map)
        for key, func in mod.of_kind(rx.Function).items():
            if self.func_name not in (None, key.name_hint):
                continue
            values = _values(func, self.binding_map)
            missing -= {k for k in self.binding_map if _names(k, values)}
            if values:
                changed[key] = bind_symbolic_vars(func, values, mod.functions)
        if missing:
            names = ", ".join(sorted(str(getattr(m, "name", m)) for m in missing))
            raise PassError(f"BindSymbolicVars: no symbolic variable {names}", root=mod)
        return mod.with_functions(changed)


def _values(func: rx.Function, given: Mapping[Any, Any]) -> dict[PrimVar, PrimExpr]:
    """What the variables of a function are to be."""
    found: dict[PrimVar, PrimExpr] = {}
    for var in (*defined_symbolic_vars(func), *free_symbolic_vars(func)):
        value = given.get(var, given.get(var.name))
        if value is not None:
            found[var] = prim_ops.cast(var.dtype, prim_ops.as_expr(value))
    return found


def _names(key: Any, values: Mapping[PrimVar, Any]) -> bool:
    return any(key is v or key == v.name for v in values) if isinstance(key, str) else key in values


def bind_named(func: rx.Function, given: Mapping[Any, Any]) -> rx.Function:
    """`func` with values put in for symbolic dimensions, by name or variable.

    Raises:
        PassError: it has no symbolic variable of a given name.
    """
    values = _values(func, given)
    missing = [str(getattr(k, "name", k)) for k in given if not _names(k, values)]
    if missing:
        raise PassError(
            f"bind_symbolic_vars: no symbolic variable {', '.join(sorted(missing))}", root=func
        )
    return bind_symbolic_vars(func, values) if values else func


def bind_symbolic_vars(
    func: rx.Function, values: Mapping[PrimVar, Any], functions: Functions | None = None
) -> rx.Function:
    """`func` with symbolic variables replaced everywhere, struct infos inferred again.

    Raises TypeInferError where an operator does not take the shapes that come out.
    """
    return _Substitution(values, functions).rewrite(func)


class _Substitution(Mutator):
    def __init__(self, symbols: Mapping[PrimVar, Any], functions: Functions | None) -> None:
        super().__init__(functions)
        self.symbols = symbols

    def _function(self, func: rx.Function) -> rx.Function:
        params = tuple(self.renewed(p) for p in func.params)
        made = super()._function(func)
        if identical(params, func.params) and made is func:
            return func
        ret = substitute(func.ret_struct_info, self.symbols)
        return replace(made, params=params, ret_struct_info=ret)

    def _binding(self, binding: rx.Binding) -> None:
        if isinstance(binding.value, rx.Function):
            self.renewed(binding.var)  # it may call itself
        super()._binding(binding)

    def _variable(self, var: rx.Var, value: Any) -> rx.Var:
        if isinstance(value, rx.Function) and var in self.remap:
            return self.remap[var]
        return super()._variable(var, value)

    def renewed(self, var: rx.Var) -> rx.Var:
        """A variable whose struct info has the values put in."""
        info = substitute(var.struct_info, self.symbols)
        if info is var.struct_info:
            return var
        self.remap[var] = type(var)(var.name_hint, info, var.span)
        return self.remap[var]

    def _match_cast(self, binding: rx.MatchCast) -> None:
        info = substitute(binding.struct_info, self.symbols)
        self._append(rx.MatchCast(self.renewed(binding.var), self.substitute(binding.value), info))

    def substitute(self, value: Any) -> Any:
        """Variables of the graph and symbolic ones."""
        value = super().substitute(value)
        if isinstance(value, rx.ShapeExpr | rx.PrimValue):
            return substitute(value, self.symbols)
        return value

    def _substitute_call(self, call: rx.Call) -> rx.Call:
        return self.with_symbols(super()._substitute_call(call))

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The call, its own struct infos and attributes with the values put in."""
        made = self.with_symbols(call)
        return None if made is call else made

    def with_symbols(self, call: rx.Call) -> rx.Call:
        """A call that mentions no replaced variable; struct info inferred later if it did."""
        args = tuple(map(self.substitute, call.args))
        infos = tuple(substitute(i, self.symbols) for i in call.sinfo_args)
        attrs = call.attrs
        if isinstance(attrs, Node) and symbolic_vars(attrs):
            attrs = substitute(attrs, self.symbols)
        known = call.struct_info
        stale = known is None or any(v in self.symbols for v in symbolic_vars(known))
        same = attrs is call.attrs and identical((*args, *infos), (*call.args, *call.sinfo_args))
        if same and not stale:
            return call
        return rx.Call(call.op, args, attrs, infos, None, call.span)
