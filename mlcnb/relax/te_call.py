"""From a tensor expression to a PrimFunc and its call_tir: what emit_te and LegalizeOps share.

te_call(topi_add, [x, y], …)     A = te.placeholder(x's shape), B = …; C = topi_add(A, B)
                                 f = te.create_prim_func([A, B, C])
                                 R.call_tir(f, (x, y), out_sinfo=C's shape and dtype)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlcnb import te
from mlcnb.core.errors import CodegenError
from mlcnb.ir.expr import GlobalVar, PrimExpr, Var
from mlcnb.relax.analysis.struct_info import definable_vars, substitute, symbolic_vars
from mlcnb.relax.emitter import Emitter
from mlcnb.relax.expr import Call, Expr, PrimValue, ShapeExpr, Tuple, call_tir, tensor_info
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.renew import renew_defs


@dataclass
class TeCall:
    """A PrimFunc and its call: tensors in, struct infos out, values of its scalar parameters."""

    func: PrimFunc
    args: tuple[Expr, ...]
    out_infos: tuple[StructInfo, ...]
    tir_vars: tuple[PrimExpr, ...]

    @property
    def out_sinfo(self) -> Any:
        """One struct info, or a list of several."""
        return self.out_infos[0] if len(self.out_infos) == 1 else list(self.out_infos)

    def by(self, key: GlobalVar) -> Call:
        """The call_tir of the function by its name in a module."""
        scalars = ShapeExpr(self.tir_vars) if self.tir_vars else None
        return call_tir(key, Tuple(self.args), self.out_sinfo, scalars)


class TeInputs:
    """Turns graph values into placeholders and scalar variables, and keeps what it made.

    Args:
        fresh: symbolic sizes become new variables; else they stay, so that a function that names
            the graph's own finds them (`lambda A: te.compute((n + 1,), …)`).
    """

    def __init__(self, fresh: bool = True) -> None:
        self.fresh = fresh
        self.tensors: list[te.Tensor] = []
        self.args: list[Expr] = []
        self.variables: dict[Var, Var] = {}

    def convert(self, value: Any) -> Any:
        """What a te function takes in place of a graph value; other values stay as they are."""
        if isinstance(value, list | tuple):
            return type(value)(self.convert(v) for v in value)
        if isinstance(value, Mapping):
            return {k: self.convert(v) for k, v in value.items()}
        if isinstance(value, Tuple):
            return tuple(self.convert(f) for f in value.fields)
        if isinstance(value, ShapeExpr):
            return tuple(self.scalar(v) for v in value.values)
        if isinstance(value, PrimValue):
            return self.scalar(value.value)
        if isinstance(value, PrimExpr):
            return self.scalar(value)
        return self.tensor(value) if isinstance(value, Expr) else value

    def tensor(self, expr: Expr, name: str = "") -> te.Tensor:
        """A new placeholder for a tensor value, so that `f(x, x)` and `f(x, y)` share a function.

        Raises:
            CodegenError: shape or dtype is not known.
        """
        info = expr.struct_info
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return self.convert(ShapeExpr(info.values))
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return self.scalar(info.value)
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
            raise CodegenError(
                "a tensor expression needs tensors of known shape and dtype",
                where=expr,
                hint="give the value a full struct info, for example with R.match_cast",
            )
        dims = [self.scalar(d) for d in info.dims]
        made = te.placeholder(dims, info.dtype, name or letter(len(self.tensors)))
        self.tensors.append(made)
        self.args.append(expr)
        return made

    def scalar(self, value: PrimExpr) -> PrimExpr:
        """An expression over fresh variables in place of the graph's symbolic ones."""
        for var in symbolic_vars(value):
            if var not in self.variables:
                self.variables[var] = Var(var.name, var.dtype) if self.fresh else var
        return substitute(value, self.variables)


def letter(number: int) -> str:
    """A, B, …, Z, A1, B1, …: names of placeholders."""
    turn, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(turn) if turn else "")


def call_te(
    emitter: Emitter,
    table: FunctionTable,
    func: Callable[..., Any],
    args: Any,
    kwargs: Mapping[str, Any],
) -> Call:
    """The call of a PrimFunc that a te function makes of graph values; the table gets the PrimFunc.

    kwargs: those of `func`, and `primfunc_name_hint` (its name, `func`'s if there is none) and
    `primfunc_attrs` (more attributes of it).
    """
    named = dict(kwargs)
    hint, attrs = (named.pop(f"primfunc_{k}", None) for k in ("name_hint", "attrs"))
    leaves = [_leaves(emitter, a) for a in args]
    made = te_call(func, leaves, {k: _leaves(emitter, v) for k, v in named.items()})
    name = hint or getattr(func, "__name__", "te_func").strip("<>")
    function = made.func.without_attr("global_symbol")
    return made.by(table.add_shared(function.with_attr(dict(attrs)) if attrs else function, name))


def _leaves(emitter: Emitter, value: Any) -> Any:
    """The arguments of a te function: graph values are bound first."""
    if isinstance(value, list | tuple):
        return type(value)(_leaves(emitter, v) for v in value)
    return emitter.leaf(value) if isinstance(value, Expr) else value


def te_call(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> TeCall:
    """Apply a te function to graph values.

    Args:
        function: from te tensors (and other values) to a te tensor or several.
        args: graph expressions among its arguments become placeholders.
        kwargs: the same for arguments by name.
    """
    inputs = TeInputs(fresh=False)
    given = [inputs.convert(a) for a in args]
    named = {k: inputs.convert(v) for k, v in kwargs.items()}
    made = function(*given, **named)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    found = finish(inputs, outputs)
    return replace(found, func=renew_defs(found.func))


def finish(inputs: TeInputs, outputs: list[te.Tensor], index_dtype: str | None = "int64") -> TeCall:
    """The PrimFunc from placeholders to `outputs`, and its call.

    Placeholders that no output needs stay parameters, so that the call keeps its arguments.

    Args:
        inputs: what became placeholders and scalars.
        outputs: the results.
        index_dtype: as `index_dtype_override` of `create_prim_func`; sizes of a graph are int64.
    """
    results = [_fresh(out, inputs.tensors, outputs[:i]) for i, out in enumerate(outputs)]
    scalars = _unbound(inputs, results)
    func = te.create_prim_func([*inputs.tensors, *results, *scalars], index_dtype)
    back = {new: old for old, new in inputs.variables.items()}
    infos = tuple(substitute(tensor_info(t.shape, t.dtype), back) for t in results)
    return TeCall(func, tuple(inputs.args), infos, tuple(back[v] for v in scalars))


def _fresh(out: te.Tensor, *others: list[te.Tensor]) -> te.Tensor:
    """`out`, or a copy where it is a parameter already (what hands its input through)."""
    if not any(out in seen for seen in others):
        return out
    return te.compute(out.shape, lambda *i: out[i], name="identity")


def _unbound(inputs: TeInputs, results: list[te.Tensor]) -> list[Var]:
    """The symbolic variables that no buffer has as a dimension of its own: scalar parameters."""
    infos = [tensor_info(t.shape, t.dtype) for t in (*inputs.tensors, *results)]
    bound = {v for info in infos for v in definable_vars(info)}
    return [v for v in inputs.variables.values() if v not in bound]
