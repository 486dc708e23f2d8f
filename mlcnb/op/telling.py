"""Operators that show or check values at run time, and say where values lie.

_ = R.print(x, y, format=R.str("x: {}, y: {}"))
_1 = R.assert_op(R.const(True, "bool"), x, format=R.str("bad {}"))
lv = R.to_vdevice(x, dst_vdevice="cuda:0")

print and assert_op take any number of values, so no declaration stands behind them; they have
effects, and the virtual machine runs them in their place.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from mlcnb.core.errors import OperatorArgumentError
from mlcnb.core.node import replace
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.global_info import VDevice
from mlcnb.op._sugar import sugar
from mlcnb.relax.expr import Call, Expr, Op, StringImm
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, as_argument, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo, describe

_NOTHING = TupleStructInfo(())


def _words(given: Any) -> StringImm:
    return given if isinstance(given, StringImm) else StringImm(str(given))


@sugar("print")
def print_(*values: Any, format: Any = "") -> Call:
    """Print values as the run comes by.

    Tensors of any shape and dtype print as NumPy's arrays; nothing is refused.

    format: a text with `{}` for each value; the values side by side where it is "".
    """
    given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    return Call(Op("relax.print"), (_words(format), *map(_shown, given)), None, (), _NOTHING)


@sugar("assert_op")
def assert_op(condition: Any, format_args: Any = (), *more: Any, format: Any = "") -> Call:
    """Stop the run where `condition`, a boolean scalar, does not hold.

    The run raises ExecutionError with that text. The condition has shape () and dtype bool: a
    tensor, a scalar of the program (`n % 16 == 0`), or a bool of Python.

    format: what the error says, a text with `{}` for each further value.

    Raises:
        OperatorArgumentError: the condition is no such thing.
    """
    first = list(format_args) if isinstance(format_args, list | tuple) else [format_args]
    test = constant(condition) if isinstance(condition, bool | np.bool_) else _shown(condition)
    _refuse_no_boolean(test)
    args = (test, _words(format), *map(_shown, (*first, *more)))
    return Call(Op("relax.assert_op"), args, None, (), _NOTHING)


def _shown(value: Any) -> Expr:
    """A value of such a call: a scalar of the program stays what it says."""
    return as_argument(value, "Scalar" if isinstance(value, PrimExpr) else "Tensor")


def _refuse_no_boolean(test: Expr) -> None:
    """What is known of a condition must not say that it is something else."""
    info = test.struct_info
    kind, is_scalar = getattr(info, "dtype", None), getattr(info, "ndim", 0) in (0, -1)
    if info is not None and not (is_scalar and (kind is None or kind.is_bool)):
        raise OperatorArgumentError(
            f"assert_op: the condition has to be a boolean scalar, it is {describe(info)}",
            hint="compare it: R.assert_op(n % 16 == 0)",
        )


@operator("relax.to_vdevice")
class ToVDevice(OpDecl):
    """The same tensor on another virtual device. No loops: where there is one machine, nothing."""

    data: Tensor
    dst_vdevice: VDevice | str

    def infer(self, data: Any) -> Any:
        """data's, on `dst_vdevice`."""
        return replace(data, vdevice=self.dst_vdevice)

    def numpy(self, data: Any) -> Any:
        """The same array"""
        return np.array(data)


@operator("relax.hint_on_device")
class HintOnDevice(OpDecl):
    """A wish that the tensor be computed on a device; `RealizeVDevice` makes it a fact."""

    data: Tensor
    device_type: int
    index: int
    memory_scope: str = "global"

    def infer(self, data: Any) -> Any:
        """data's."""
        return data

    def numpy(self, data: Any) -> Any:
        """The same array"""
        return np.array(data)


@sugar("hint_on_device")
def hint_on_device(data: Any, dst_vdevice: Any, memory_scope: str = "global") -> Call:
    """`R.hint_on_device(x, R.device(device_type=1, index=0), "global")`: a device, and one of its
    memories.

    The tensor keeps its shape and dtype; RealizeVDevice raises PassError where the module has no
    such device.

    Raises:
        OperatorArgumentError: `dst_vdevice` is no device, and no number of a kind of them.
    """
    kind, index = getattr(dst_vdevice, "device_type", dst_vdevice), getattr(dst_vdevice, "index", 0)
    if not isinstance(kind, Integral) or not isinstance(index, Integral):
        raise OperatorArgumentError(
            f"hint_on_device: {dst_vdevice!r} is no device", hint="give mlcnb.cpu(), mlcnb.cuda(0)"
        )
    return make_call(HintOnDevice, data, int(kind), int(index), memory_scope)
