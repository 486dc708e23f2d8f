"""Calls out of the operators: tensor expressions, loop functions, foreign and debug functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import const
from mlcnb.relax import expr as rx
from mlcnb.relax.frontend.nn.tensor import Tensor, builder, unwrap, wrap_nested
from mlcnb.relax.struct_info import ObjectStructInfo, StructInfo


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any],
    name_hint: str,
    args: Sequence[Any],
    *,
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a function of te tensors, which becomes a PrimFunc of the module.

    Args:
        tensor_expr_func: from te tensors, sizes and numbers to one te tensor or several.
        name_hint: the PrimFunc's name.
        args: Tensors become te tensors; anything else is handed on.
        attrs: attributes of the PrimFunc.
    """
    made = builder(f"tensor_expr_op {name_hint}")
    given = [unwrap(a) for a in args]
    if not attrs:
        return wrap_nested(
            made.emit_te(tensor_expr_func, *given, primfunc_name_hint=name_hint), name_hint
        )
    call = made.call_te(tensor_expr_func, *given, primfunc_name_hint=name_hint)
    key: Any = call.args[0]
    func: Any = made.get().functions[key]
    made.update_func(key, func.with_attr(dict(attrs)))
    return wrap_nested(made.emit(call), name_hint)


def tensor_ir_op(func: Any, name_hint: str, args: Any, out: Any) -> Any:
    """Call a PrimFunc: inputs, then outputs, then scalars.

    Args:
        func: the PrimFunc.
        name_hint: its name in the module.
        args: Tensors, then sizes and numbers (a ShapeExpr stands for its sizes).
        out: `Tensor.placeholder` of the result, or several.
    """
    made = builder(f"tensor_ir_op {name_hint}")
    tensors, scalars = _tir_arguments("tensor_ir_op", args)
    key = made.add_func(func, name_hint)
    return wrap_nested(made.emit(rx.call_tir(key, tensors, _infos(out), scalars)), name_hint)


def tensor_ir_inplace_op(
    func: Any, name_hint: str, args: Any, inplace_indices: Any, out: Any
) -> Any:
    """As `tensor_ir_op`, where output i is written into argument inplace_indices[i] (-1: new)."""
    made = builder(f"tensor_ir_inplace_op {name_hint}")
    tensors, scalars = _tir_arguments("tensor_ir_inplace_op", args)
    where = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    key = made.add_func(func, name_hint)
    call = rx.call_tir_inplace(key, tensors, where, _infos(out), scalars)
    return wrap_nested(made.emit(call), name_hint)


def _tir_arguments(what: str, args: Any) -> tuple[list[Any], rx.ShapeExpr | None]:
    tensors: list[Any] = []
    scalars: list[Any] = []
    for arg in args if isinstance(args, list | tuple) else [args]:
        if isinstance(arg, Tensor):
            tensors.append(arg._expr)
        elif isinstance(arg, rx.ShapeExpr):
            scalars.extend(arg.values)
        elif isinstance(arg, PrimExpr | int) and not isinstance(arg, bool):
            scalars.append(arg)
        else:
            raise ArgumentError(
                f"Unsupported type: {what} args expect Tensor or ShapeExpr or PrimExpr, "
                f"but got {type(arg).__name__}"
            )
    return tensors, rx.shape_expr(scalars) if scalars else None


def _infos(out: Any) -> Any:
    """One struct info, or a list."""
    if isinstance(out, Tensor):
        return out._expr.struct_info
    return [x._expr.struct_info for x in out]


def extern(name: str, args: Sequence[Any], out: Any) -> Any:
    """Call a registered function that writes into its last arguments.

    Args:
        name: what it was registered as (`mlcnb.register_func`).
        args: Tensors, numbers, strings, and lists of them.
        out: `Tensor.placeholder` of the result, or several.
    """
    given = rx.Tuple(tuple(_argument(a) for a in args))
    return wrap_nested(rx.call_dps_packed(name, given, _infos(out)), name)


def _argument(arg: Any, real: str = "float64") -> Any:
    if isinstance(arg, list | tuple):
        return rx.Tuple(tuple(_argument(a, real) for a in arg))
    if isinstance(arg, str):
        return rx.StringImm(arg)
    if isinstance(arg, bool) or not isinstance(arg, int | float | Tensor | rx.Expr | PrimExpr):
        raise ArgumentError(f"Unsupported input type: {type(arg).__name__}")
    if isinstance(arg, int | float):
        return rx.PrimValue(const(arg, "int64" if isinstance(arg, int) else real))
    return rx.PrimValue(arg) if isinstance(arg, PrimExpr) else unwrap(arg)


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call a registered function while the program runs: `f(line, *args)`, in order.

    Args:
        name: what it was registered as.
        args: Tensors, numbers, strings.

    Raises:
        MLCError: the module is not exported with debug=True.
    """
    from mlcnb.relax.frontend.nn.exporter import Exporter

    io = Exporter.current().io_effect
    if io is None:
        raise MLCError(
            "Debugging is only supported when debug mode is on.",
            hint="module.export_tvm(spec, debug=True), or jit(spec, debug=True)",
        )
    line = _line_info or _line_of(inspect.currentframe())
    info: StructInfo = ObjectStructInfo()
    given = [rx.StringImm(name), rx.StringImm(line), *(_argument(a, "float32") for a in args)]
    call = rx.call_pure_packed("vm.builtin.invoke_debug_func", io.effect, *given, sinfo_args=[info])
    io.effect = builder("debug_func").emit(call, "_io")


def print_(tensor: Tensor) -> None:
    """Print a Tensor while the program runs, with the line of this call."""
    debug_func("vm.builtin.debug_print", tensor, _line_info=_line_of(inspect.currentframe()))


def _line_of(frame: Any) -> str:
    """`file:line` of what called the function of this frame."""
    caller = frame.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"
