"""The arguments of a call in the form that declarations take.

R.reshape(x, (4, n))        [TensorStructInfo of x, ShapeStructInfo((4, n))]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import TypeInferError
from mlcnb.relax import expr as rx
from mlcnb.relax.operator import OpDecl, call_arguments, declaration
from mlcnb.relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    describe,
)


def operand_infos(call: rx.Call) -> list[Any]:
    """One value for each declared argument: its struct info (None where left out).

    A Tensors argument gives a Python tuple of infos; a String or Dtype argument its value.

    Raises:
        TypeInferError: an argument is not of the kind that the declaration says.
    """
    decl = declaration(call.op)
    given = call_arguments(call)
    if len(given) > len(decl.arguments):
        raise TypeInferError(
            f"{decl.sugar}: {len(given)} arguments, it takes {len(decl.arguments)}", where=call
        )
    pairs = zip(decl.arguments.items(), given, strict=True)
    return [_operand(decl, name, kind, arg) for (name, kind), arg in pairs]


def _operand(decl: type[OpDecl], name: str, kind: str, arg: Any) -> Any:
    if arg is None:
        if kind.startswith("Optional"):
            return None
        raise TypeInferError(f"{decl.sugar}: argument {name!r} is missing")
    read = _READ.get(kind.removeprefix("Optional"))
    return getattr(arg, "struct_info", None) if read is None else read(decl, name, arg)


def _wrong(decl: type[OpDecl], name: str, wanted: str, arg: Any) -> TypeInferError:
    text = describe(getattr(arg, "struct_info", None))
    return TypeInferError(f"{decl.sugar}: argument {name!r} has to be {wanted}, it is {text}")


def _tensor(decl: type[OpDecl], name: str, arg: Any) -> TensorStructInfo | PrimStructInfo:
    info = arg.struct_info
    if isinstance(info, TensorStructInfo):
        return info
    if info is None or isinstance(info, ObjectStructInfo):
        return TensorStructInfo()
    if decl.takes_scalars and isinstance(info, PrimStructInfo):
        return info
    raise _wrong(decl, name, "a tensor", arg)


def _tensors(decl: type[OpDecl], name: str, arg: Any) -> tuple[TensorStructInfo, ...]:
    info = arg.struct_info
    if isinstance(info, TupleStructInfo):
        return tuple(_as_tensor(decl, name, arg, f) for f in info.fields)
    raise _wrong(decl, name, "a tuple of tensors", arg)


def _as_tensor(decl: type[OpDecl], name: str, arg: Any, info: Any) -> TensorStructInfo:
    if isinstance(info, TensorStructInfo):
        return info
    if isinstance(info, ObjectStructInfo):
        return TensorStructInfo()
    raise _wrong(decl, name, "a tuple of tensors", arg)


def _shape(decl: type[OpDecl], name: str, arg: Any) -> ShapeStructInfo:
    info = arg.struct_info
    if isinstance(info, ShapeStructInfo):
        return info
    if info is None or isinstance(info, ObjectStructInfo):
        return ShapeStructInfo()
    raise _wrong(decl, name, "a shape", arg)


def _scalar(decl: type[OpDecl], name: str, arg: Any) -> PrimStructInfo:
    if isinstance(arg.struct_info, PrimStructInfo):
        return arg.struct_info
    raise _wrong(decl, name, "a scalar (R.prim_value)", arg)


def _string(decl: type[OpDecl], name: str, arg: Any) -> str:
    if isinstance(arg, rx.StringImm):
        return arg.value
    raise _wrong(decl, name, "a string (R.str)", arg)


def _dtype(decl: type[OpDecl], name: str, arg: Any) -> str:
    if isinstance(arg, rx.DataTypeImm):
        return arg.value
    raise _wrong(decl, name, "a dtype (R.dtype)", arg)


_READ: dict[str, Callable[[type[OpDecl], str, Any], Any]] = {
    "Tensor": _tensor,
    "Tensors": _tensors,
    "Shape": _shape,
    "Scalar": _scalar,
    "String": _string,
    "Dtype": _dtype,
}
