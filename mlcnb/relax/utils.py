"""Helpers by TVM's names: Python values as graph values, loops of a tensor expression, copies.

convert_to_expr((x, 1, "s"))          R.tuple(x, 1, R.str("s"))
gen_call_tir_inputs(topi.add, x, y)   a PrimFunc, and what `call_tir` takes for it
copy_with_new_vars(func)              the same function, every variable a new one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import rewrite
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.expr import Var as SizeVar
from mlcnb.ir.prim_ops import const
from mlcnb.relax.analysis.variables import bound_vars, defined_symbolic_vars
from mlcnb.relax.expr import Expr, Function, PrimValue, ShapeExpr, StringImm, Tuple, Var, shape_expr
from mlcnb.relax.te_call import te_call
from mlcnb.tir.function import PrimFunc

__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]


def convert_to_expr(value: Any) -> Expr:
    """A Python value as a graph value: numbers (int64, float64, bool), scalars, texts, tuples and
    lists of them; expressions as they are.

    Raises:
        ArgumentError: nothing in a graph stands for it.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, PrimExpr):
        return PrimValue(value)
    if isinstance(value, bool | int | float):
        kinds = {bool: "bool", int: "int64", float: "float64"}
        return PrimValue(const(value, kinds[type(value)]))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, list | tuple):
        return Tuple(tuple(map(convert_to_expr, value)))
    raise ArgumentError(
        f"convert_to_expr: {kind_of(value)} is no value of a graph",
        hint="an array becomes one by relax.const",
    )


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[PrimFunc, Tuple, Any, ShapeExpr | None]:
    """What `call_tir` takes for a te function of graph values: the PrimFunc, the arguments, the
    struct info of the result (a list for several), the values of symbolic sizes that no argument
    tells (None for none).

    kwargs: those of `func`; `primfunc_attrs`: more attributes of the PrimFunc.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    made = te_call(func, args, kwargs)
    function = made.func.without_attr("global_symbol")
    function = function.with_attr(dict(attrs)) if attrs else function
    scalars = shape_expr(made.tir_vars) if made.tir_vars else None
    return function, Tuple(made.args), made.out_sinfo, scalars


def copy_with_new_vars(func: Function) -> Function:
    """A function of the same meaning none of whose variables, parameters, bindings and symbolic
    sizes that it defines, is one of `func`'s: so that both can stand in one place.
    """
    sizes = defined_symbolic_vars(func)
    fresh = {v: type(v)(v.name, v.dtype) for v in sizes}
    own = rewrite(func, lambda n: fresh.get(n) if isinstance(n, SizeVar) else None)
    old = (*own.params, *bound_vars(own))
    renamed: dict[Any, Var] = {v: type(v)(v.name_hint, v.struct_info, v.span) for v in old}
    return rewrite(own, lambda n: renamed.get(n) if isinstance(n, Var) else None)
