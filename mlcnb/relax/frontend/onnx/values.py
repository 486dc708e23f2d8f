"""What the importer knows of tensors: constants, symbolic small integers, and how calls fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core import options
from mlcnb.core.errors import MLCError
from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Call, Constant, Expr, Op, ShapeExpr, Tuple, const
from mlcnb.relax.infer import infer_call
from mlcnb.relax.numpy_call import call_numpy
from mlcnb.relax.operator import attrs_of, call_arguments, declaration
from mlcnb.relax.struct_info import TensorStructInfo

#: tensors of at most this many elements are followed symbolically
SMALL = 64


class Values:
    """The builder, and the values of tensors that are known at import."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        #: variable -> object array of ints and PrimExprs
        self.symbolic: dict[Any, np.ndarray] = {}
        self.folded_bytes = 0

    def emit(self, value: Any) -> Expr:
        """Bind an expression to a variable, unless its value is known: then it is a constant."""
        if not isinstance(value, Call):
            return value if isinstance(value, Expr) else self.builder.emit(value)
        value = self.flat(value)
        folded = self.fold(value)
        if folded is not None:
            return folded
        var = self.builder.emit(value)
        self.follow(var, value)
        return var

    def flat(self, call: Call) -> Call:
        """The call with nested calls emitted first."""
        args = tuple(self.emit(a) if isinstance(a, Call) and _is_op(a) else a for a in call.args)
        return call if args == call.args else replace(call, args=args)

    def fold(self, call: Call) -> Any:
        """The constant that a call of an operator on constants is; None if it is not one."""
        if not _is_op(call) or not _all_constant(call.args):
            return None
        info = infer_call(call, {})
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        size = _bytes(info)
        if size is None or size > options.get("max_tensor_bytes"):
            return None
        result = call_numpy(replace(call, struct_info=info), _no_variable)
        return const(np.asarray(result)) if isinstance(result, np.ndarray | np.generic) else None

    def follow(self, var: Any, call: Call) -> None:
        """Keep the symbolic value of a small integer tensor, where it can be computed."""
        info = var.struct_info
        if not _is_op(call) or not isinstance(info, TensorStructInfo) or not _is_small(info):
            return
        if call.op.name == "relax.shape_to_tensor":
            self.keep(var, np.array([_dim(d) for d in call.args[0].values], object))  # type: ignore[attr-defined]
            return
        values = [None if a is None else self.value(a) for a in call_arguments(call)]
        given = [a for a in call_arguments(call) if a is not None]
        if not given or any(
            v is None for v, a in zip(values, call_arguments(call), strict=True) if a is not None
        ):
            return
        try:
            result = attrs_of(call).numpy(*values)
        except (MLCError, TypeError, ValueError, AttributeError, IndexError):
            return  # this operator has no meaning for symbolic elements
        if isinstance(result, np.ndarray) and result.dtype == object:
            self.keep(var, result)

    def keep(self, var: Any, value: np.ndarray) -> None:
        """Record a symbolic value."""
        self.symbolic[var] = value

    def value(self, x: Any) -> Any:
        """The value of an argument: an array, dimensions, a tuple of arrays; None if not known."""
        if isinstance(x, ShapeExpr):
            return tuple(_dim(d) for d in x.values)
        if isinstance(x, Tuple):
            parts = tuple(self.value(f) for f in x.fields)
            return None if any(p is None for p in parts) else parts
        return self.known(x)

    def known(self, x: Any) -> np.ndarray | None:
        """The value of a tensor where it is known."""
        if isinstance(x, Constant):
            return x.data
        return self.symbolic.get(x)

    def attribute(self, attribute: Any, node: Any) -> Any:
        """The Python value of an AttributeProto."""
        import onnx

        value = onnx.helper.get_attribute_value(attribute)
        return _python(value, attribute, onnx)


def _python(value: Any, attribute: Any, onnx: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(v.decode("utf-8", "replace") for v in value)
    return value


def _is_op(call: Call) -> bool:
    return isinstance(call.op, Op) and declaration(call.op, missing_ok=True) is not None


def _all_constant(args: Any) -> bool:
    for arg in args:
        if isinstance(arg, Tuple):
            if not _all_constant(arg.fields):
                return False
        elif isinstance(arg, ShapeExpr):
            if any(as_int(d) is None for d in arg.values):
                return False
        elif (
            isinstance(arg, Expr)
            and not isinstance(arg, Constant | Op)
            and not hasattr(arg, "value")
        ):
            return False
    return bool(args)


def _bytes(info: TensorStructInfo) -> int | None:
    dims = [as_int(d) for d in info.dims or ()]
    if None in dims or info.dtype is None:
        return None
    total = info.dtype.nbytes
    for d in dims:
        total *= d  # type: ignore[operator]
    return total


def _is_small(info: TensorStructInfo) -> bool:
    if info.dims is None or info.dtype is None or not (info.dtype.is_integer or info.dtype.is_bool):
        return False
    total = 1
    for d in info.dims:
        total *= as_int(d) if as_int(d) is not None else SMALL + 1  # type: ignore[operator]
    return total <= SMALL


def _dim(d: Any) -> Any:
    value = as_int(d)
    return d if value is None else value


def _no_variable(arg: Any) -> Any:
    raise MLCError(f"{arg!r} is not constant")
