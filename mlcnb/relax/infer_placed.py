"""What holds of the results of all operators: the shape that a variable holds, and the device.

R.reshape(x, s)                     Tensor(s, …) where only `s` knows the dimensions
R.add(x, y)                         on the virtual device of x and y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlcnb.core.errors import TypeInferError
from mlcnb.core.node import replace
from mlcnb.relax.expr import Call, Var
from mlcnb.relax.operator import call_arguments, declaration
from mlcnb.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo


def shaped(result: StructInfo, call: Call) -> StructInfo:
    """A result of unknown dimensions whose shape is the value of a variable: of that shape."""
    decl = declaration(call.op)
    if (
        not decl.shape_argument
        or not isinstance(result, TensorStructInfo)
        or result.dims is not None
    ):
        return result
    shape = call_arguments(call)[list(decl.arguments).index(decl.shape_argument)]
    return replace(result, shape=shape) if isinstance(shape, Var) else result


def on_device(result: StructInfo, operands: list[Any]) -> StructInfo:
    """The result on the virtual device that its operands lie on.

    Raises:
        TypeInferError: they lie on several.
    """
    devices = set(_devices(operands))
    if not devices:
        return result
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise TypeInferError(
            f"the tensors lie on several devices, {names}", hint="bring one over: R.to_vdevice"
        )
    return _placed(result, devices.pop())


def _devices(infos: Iterable[Any]) -> Iterator[Any]:
    for info in infos:
        if isinstance(info, tuple):
            yield from _devices(info)
        elif isinstance(info, TensorStructInfo) and info.vdevice is not None:
            yield info.vdevice


def _placed(info: Any, device: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(_placed(f, device) for f in info.fields))
    if isinstance(info, TensorStructInfo) and info.vdevice is None:
        return replace(info, vdevice=device)
    return info
