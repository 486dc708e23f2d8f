"""The calls of R that are no operators: across levels, of packed functions, of closures; and the
operators, derived from their declarations: `R.add`, `R.nn.relu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.dtype import dtype as _dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.op import namespace
from mlcnb.relax import expr as rx
from mlcnb.relax.inplace import checked_inplace, inplace_places
from mlcnb.relax.operator import attributes_of, declaration
from mlcnb.relax.struct_info import StructInfo, told_by
from mlcnb.script.frames import FromTe, Matched, Output
from mlcnb.script.plain_calls import PLAIN_CALLS
from mlcnb.script.relax.convert import as_relax
from mlcnb.script.relax.struct_infos import dim, info
from mlcnb.script.words import Namespace


def _out(given: Any, new: Any, word: str) -> StructInfo:
    found = given if given is not None else new
    if found is None:
        raise MLCError(
            f"{word} needs the type of its result", hint='out_sinfo=R.Tensor((4,), dtype="float32")'
        )
    if isinstance(found, list | tuple):
        return told_by(tuple(map(info, found)))
    return info(found)


def _listed(args: Any) -> list[Any]:
    if isinstance(args, rx.Tuple):
        return list(args.fields)
    return list(args) if isinstance(args, list | tuple) else [args]


def _inputs(args: Any, tir_vars: Any) -> tuple[rx.Tuple, tuple[Any, ...]]:
    """The tuple of inputs and the symbolic scalars after it (0.27 puts them among the inputs)."""
    given = _listed(args)
    scalars: list[PrimExpr | int] = []
    while tir_vars is None and given and isinstance(given[-1], PrimExpr | int):
        scalars.insert(0, given.pop())
    if isinstance(tir_vars, list | tuple):
        tir_vars = rx.shape_expr(tir_vars)
    extra = [as_relax(tir_vars)] if tir_vars is not None else []
    if scalars:
        extra = [rx.shape_expr(scalars)]
    if extra and isinstance(extra[0], rx.Tuple):
        raise MLCError("tir_vars is a shape", hint="tir_vars=R.shape([n])")
    return rx.Tuple(tuple(map(as_relax, given))), tuple(extra)


def call_tir(
    gvar: Any, args: Any, out_sinfo: Any = None, tir_vars: Any = None, *, out_ty: Any = None
) -> rx.Call:
    """Call a PrimFunc: inputs, then outputs that are allocated as `out_sinfo` says."""
    result = _out(out_sinfo, out_ty, "R.call_tir")
    inputs, extra = _inputs(args, tir_vars)
    return rx.call_tir(gvar, inputs, result, *extra)


def call_tir_inplace(
    gvar: Any,
    args: Any,
    inplace_indices: Any,
    out_sinfo: Any = None,
    tir_vars: Any = None,
    *,
    out_ty: Any = None,
) -> rx.Call:
    """As call_tir, where output i is written into argument inplace_indices[i] (-1: allocated)."""
    result = _out(out_sinfo, out_ty, "R.call_tir_inplace")
    inputs, extra = _inputs(args, tir_vars)
    return rx.call_tir_inplace(gvar, inputs, inplace_indices, result, *extra)


def call_dps_packed(func: Any, args: Any, out_sinfo: Any = None, *, out_ty: Any = None) -> rx.Call:
    """Call a registered Python function that writes into its trailing output tensors."""
    result = _out(out_sinfo, out_ty, "R.call_dps_packed")
    inputs = rx.Tuple(tuple(map(as_relax, _listed(args))))
    op = rx.Op("relax.call_dps_packed")
    return rx.Call(op, (_extern(func), inputs), None, (result,), result)


def _extern(func: Any) -> Any:
    return rx.ExternFunc(func) if isinstance(func, str) else func


def _infos(sinfo_args: Any, ty_args: Any) -> tuple[StructInfo, ...]:
    given = sinfo_args if sinfo_args is not None else ty_args
    if given is None:
        return ()
    return tuple(map(info, given)) if isinstance(given, list | tuple) else (info(given),)


def call_packed(func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None) -> rx.Call:
    """Call a registered Python function for its value; it may have effects."""
    infos = _infos(sinfo_args, ty_args)
    result = told_by(infos) if infos else None
    return rx.Call(_extern(func), tuple(map(as_relax, args)), None, infos, result)


def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None) -> rx.Call:
    """Call a registered Python function that has no effects.

    `sinfo_args` as in call_packed. That it has no effects is taken on trust: a call that nothing
    uses is dropped, none is refused.
    """
    infos = _infos(sinfo_args, ty_args)
    result = told_by(infos) if infos else None
    given = (_extern(func), *map(as_relax, args))
    return rx.Call(rx.Op("relax.call_pure_packed"), given, None, infos, result)


def call_builtin_with_ctx(
    func: Any, args: Any, *, sinfo_args: Any = None, ty_args: Any = None
) -> rx.Call:
    """Call a builtin that is handed the machine it runs in beside its arguments.

    `sinfo_args` says what comes back, its shape and dtype. The run raises MLCError if no builtin
    has the name.
    """
    infos = _infos(sinfo_args, ty_args)
    given = (_extern(func), rx.Tuple(tuple(map(as_relax, _listed(args)))))
    result = infos[0] if infos else None
    return rx.Call(rx.Op("relax.call_builtin_with_ctx"), given, None, infos, result)


def call_tir_with_grad(
    gvar: Any,
    args: Any,
    out_sinfo: Any = None,
    te_grad_name: str = "",
    te_grad_kwargs: Any = None,
    tir_vars: Any = None,
    *,
    out_ty: Any = None,
) -> rx.Call:
    """As call_tir; its gradient is a registered function of tensor expressions.

    Shapes and dtypes are those of call_tir, and it is refused as that is; `te_grad_name` is looked
    up by Gradient.
    """
    call = call_tir(gvar, args, out_sinfo, tir_vars, out_ty=out_ty)
    gvar, args, *scalars = call.args
    shape: Any = scalars[0] if scalars else None
    infos = call.sinfo_args[0]
    return rx.call_tir_with_grad(gvar, args, infos, shape, te_grad_name, te_grad_kwargs)


def call_py_func(func: Any, args: Any, out_sinfo: Any = None, *, out_ty: Any = None) -> rx.Call:
    """Call a Python function by its name, which `mlcnb.register_func` has to know when it runs.

    The result has the struct info `out_sinfo`: shapes and dtypes. The run raises ExecutionError if
    no function has the name.
    """
    result = _out(out_sinfo, out_ty, "R.call_py_func")
    inputs = rx.Tuple(tuple(map(as_relax, _listed(args))))
    return rx.Call(rx.Op("relax.call_py_func"), (as_relax(func), inputs), None, (result,), result)


def call_inplace_packed(
    func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any = None, ty_args: Any = None
) -> rx.Call:
    """As call_pure_packed, where result i is argument inplace_indices[i], written over.

    Both have one shape and dtype. The run raises MLCError if no function has the name.
    """
    call = call_pure_packed(func, *args, sinfo_args=sinfo_args, ty_args=ty_args)
    attrs = FrozenDict(inplace_indices=inplace_places(inplace_indices))
    op = rx.Op("relax.call_inplace_packed")
    return checked_inplace(rx.Call(op, call.args, attrs, call.sinfo_args, call.struct_info))


#: what closures are, for those that are no operators
_INVOKED = (
    "`sinfo_args` says the shape and dtype of what comes back.\n\n"
    "The run raises ExecutionError if it is no closure."
)
_CLOSURES = {
    "make_closure": "A private function with the values that it captured, `(function, (x, y))`.\n\n"
    "Its struct info is R.Object, without shape or dtype. LambdaLift makes it, none is refused.",
    "invoke_closure": f"Call a closure that may have effects: `(closure, (x, y))`. {_INVOKED}",
    "invoke_pure_closure": f"Call a closure without effects: `(closure, (x, y))`. {_INVOKED}",
}


#: names of the arguments that may be given by name; then come the struct infos
_NAMED = {
    "make_closure": ("func", "args"),
    "invoke_closure": ("closure", "args"),
    "invoke_pure_closure": ("closure", "args"),
}


def plain_call(name: str) -> Any:
    """The function that makes the call `R.name(args, sinfo_args=…, attribute=…)`."""

    named = _NAMED.get(name, ())

    def build(*args: Any, sinfo_args: Any = None, ty_args: Any = None, **attrs: Any) -> rx.Call:
        args = (*args, *(attrs.pop(n) for n in named[len(args) :] if n in attrs))
        if named and len(args) > len(named) and sinfo_args is None:
            *args, sinfo_args = args  # type: ignore[assignment]
        infos = _infos(sinfo_args, ty_args)
        frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
        given = tuple(map(as_relax, args))
        result = told_by(infos) if infos else None
        made = FrozenDict(frozen) if frozen else None
        return rx.Call(rx.Op(f"relax.{name}"), given, made, infos, result)

    build.__name__ = name.rpartition(".")[2]
    build.__qualname__ = name
    build.__doc__ = _CLOSURES.get(name, f"A call of relax.{name}.")
    return build


def generic_call(
    op: Any, args: Sequence[Any], attrs: Any = None, sinfo_args: Any = None, ty_args: Any = None
) -> rx.Call:
    """Any call, part by part: `R.Call(R.Op("relax.add"), (x, y), attrs={…}, sinfo_args=(…,))`."""
    infos = _infos(sinfo_args, ty_args)
    decl = declaration(op, missing_ok=True) if attrs and isinstance(op, rx.Op) else None
    held = _attrs(attrs) if decl is None else attributes_of(decl, attrs)
    result = told_by(infos) if infos else None
    return rx.Call(op, tuple(map(as_relax, args)), held, infos, result)


def _attrs(attrs: Any) -> Any:
    if attrs is None:
        return None
    frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(attrs).items()}
    return FrozenDict(frozen)


def operator_name(name: str) -> rx.Op:
    """An operator by its full name: `R.Op("relax.add")`."""
    return rx.Op(name)


def shape(values: Sequence[Any]) -> rx.ShapeExpr:
    """A shape as a value: `R.shape([n, 4])`."""
    if not isinstance(values, list | tuple):
        raise MLCError("a shape is a list or a tuple", hint="R.shape([n, 4])")
    return rx.ShapeExpr(tuple(dim(v) for v in values))


def prim_value(value: Any) -> rx.PrimValue:
    """A scalar as a value: `R.prim_value(1)` is an int64."""
    made = as_relax(value)
    if not isinstance(made, rx.PrimValue):
        raise MLCError("R.prim_value takes a scalar")
    return made


def string(value: str) -> rx.StringImm:
    """A string as a value."""
    return rx.StringImm(value)


def dtype_value(value: Any) -> rx.DataTypeImm:
    """A dtype as a value."""
    return rx.DataTypeImm(_dtype(str(getattr(value, "dtype", value))))


def make_tuple(*fields: Any) -> rx.Tuple:
    """A tuple: `R.tuple(x, y)`."""
    return rx.Tuple(tuple(map(as_relax, fields)))


def tuple_get_item(value: rx.Expr, index: int) -> rx.TupleGetItem:
    """One field of a tuple."""
    return rx.TupleGetItem(value, index)


def extern_func(name: str, struct_info: Any = None) -> rx.ExternFunc:
    """A function outside of the module, by its global name."""
    return rx.ExternFunc(name, None if struct_info is None else info(struct_info))


def match_cast(value: Any, struct_info: Any) -> Matched:
    """`value`, checked at run time to be of a type, which may bring in symbolic variables."""
    return Matched(as_relax(value), info(struct_info))


def emit_te(func: Any, *args: Any, **kwargs: Any) -> FromTe:
    """The call of a loop function that a tensor expression makes of graph values; the module gets
    the function. Arguments as of `BlockBuilder.emit_te`.
    """
    return FromTe(func, args, kwargs)


def output(*values: Any) -> Output:
    """The variables of a dataflow block that live on after it."""
    return Output(values)


def null_value() -> rx.Op:
    """An optional argument that is left out; bound to a variable, an object that is nothing.

    As `bias` of a convolution, say; its struct info is R.Object, without shape or dtype. An
    operator that needs the argument refuses it, where its struct info is inferred.
    """
    return rx.Op("relax.null_value")


@dataclass(frozen=True)
class DeviceWord:
    """`R.device(device_type=1, index=0)`: DLPack's number of the kind (1: CPU, 2: CUDA), which."""

    device_type: int
    index: int = 0


def device(device_type: Any = 1, index: int = 0) -> DeviceWord:
    """A device by DLPack's number of its kind (1: the CPU, 2: CUDA) or by its name."""
    number = _DEVICE_TYPES.get(device_type, device_type)
    if number not in _DEVICE_TYPES.values():
        raise MLCError(f"no device of type {device_type!r}", hint="1 is the CPU, 2 is CUDA")
    return DeviceWord(number, index)


_DEVICE_TYPES = {"cpu": 1, "llvm": 1, "cuda": 2}


def cpu(index: int = 0) -> DeviceWord:
    """The CPU."""
    return DeviceWord(1, index)


def cuda(index: int = 0) -> DeviceWord:
    """A GPU by its number."""
    return DeviceWord(2, index)


#: words that are called as their functions are
_BY_NAME = (
    device, cpu, cuda, call_tir, call_tir_inplace, call_tir_with_grad, call_inplace_packed,
    call_py_func, call_dps_packed, call_builtin_with_ctx, call_packed, call_pure_packed, shape,
    prim_value, match_cast, emit_te, output, null_value,
)  # fmt: skip
CALLS: dict[str, Any] = {
    **{word.__name__: word for word in _BY_NAME},
    "Call": generic_call,
    "Op": operator_name,
    "ShapeExpr": shape,
    "str": string,
    "dtype": dtype_value,
    "tuple": make_tuple,
    "TupleGetItem": tuple_get_item,
    "ExternFunc": extern_func,
}


def call_named(name: str) -> Any:
    """The function of `CALLS`, or the plain call, of that name."""
    return CALLS.get(name) or plain_call(name)


@cache
def operators() -> dict[str, Any]:
    """Name -> function or Namespace, for everything that follows `R.`"""
    tree: dict[str, Any] = {}
    for name in sorted({*PLAIN_CALLS, *namespace.names()}):
        found = namespace.function(name) or plain_call(name)
        *path, last = name.split(".")
        table = tree
        for i, part in enumerate(path):
            inside = table.setdefault(part, Namespace("R." + ".".join(path[: i + 1]), {}))
            table = inside.table
        table[last] = found
    return tree
