"""One value everywhere: full, ones, zeros, and the same in the shape of another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import OperatorArgumentError
from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.op._convert import convert
from mlcnb.op._dims import refuse, tell, tensor
from mlcnb.op._spell import shape_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator
from mlcnb.relax.struct_info import TensorStructInfo


def _full(shape: Any, value: Any, name: str) -> Any:
    """A loop nest that stores one value everywhere."""
    return te.compute(tuple(shape), lambda *_: value, name=name)


def _element(value: Any) -> Any:
    """What a tensor without dimensions holds, or the number that stands for it."""
    return value() if isinstance(value, te.Tensor) else value


def _want_scalar(op: OpDecl, info: Any) -> None:
    if isinstance(info, TensorStructInfo) and info.ndim != 0:
        refuse(op, f"fill_value must be a scalar, but is {tell(info)}")


@operator("relax.full")
class Full(OpDecl):
    """A tensor of `shape` that holds `fill_value` (a tensor without dimensions) everywhere.

    dtype: of the result; None: that of fill_value.
    """

    follows = True
    shape_argument = "shape"
    takes_scalars = True

    shape: Shape
    fill_value: Tensor
    dtype: str | None = None

    def infer(self, shape: Any, fill_value: Any) -> Any:
        """Tensor of that shape."""
        _want_scalar(self, fill_value)
        return tensor(shape.values, self.dtype or fill_value.dtype, shape.ndim)

    def numpy(self, shape: Any, fill_value: Any) -> Any:
        """numpy.full, as a view of one number"""
        return np.broadcast_to(
            convert(np.asarray(fill_value), self.dtype or fill_value.dtype.name), shape
        )

    def compute(self, shape: Any, fill_value: Any) -> Any:
        """One loop nest."""
        value = p.cast(self.dtype or fill_value.dtype, _element(fill_value))
        return _full(shape, value, "full")


@operator("relax.full_like")
class FullLike(OpDecl):
    """As full, of x's shape. dtype: of the result; None: that of x."""

    follows = True
    tir_name = "full"
    takes_scalars = True

    x: Tensor
    fill_value: Tensor
    dtype: str | None = None

    def infer(self, x: Any, fill_value: Any) -> Any:
        """Tensor of x's shape."""
        _want_scalar(self, fill_value)
        return replace(x, dtype=dtype(str(self.dtype)) if self.dtype else x.dtype)

    def numpy(self, x: Any, fill_value: Any) -> Any:
        """numpy.full, as a view of one number"""
        return np.broadcast_to(convert(fill_value, self.dtype or x.dtype.name), x.shape)

    def compute(self, x: Any, fill_value: Any) -> Any:
        """One loop nest, which reads nothing of x."""
        value = p.cast(self.dtype or x.dtype, _element(fill_value))
        return _full(x.shape, value, "full_like")


class _Filled(OpDecl):
    """Base of ones and zeros."""

    __slots__ = ()
    follows = True
    shape_argument = "shape"
    value = 0

    shape: Shape
    dtype: str

    def validate(self) -> None:
        """A dtype is given: there is nothing to take one from."""
        if self.dtype in ("", "void"):
            raise OperatorArgumentError(
                f"{self.sugar}: dtype is {self.dtype!r}, which says none",
                hint=f'say which: {self.sugar}(shape, "float32")',
            )

    def infer(self, shape: Any) -> Any:
        """Tensor of that shape."""
        return tensor(shape.values, self.dtype, shape.ndim)

    def numpy(self, shape: Any) -> Any:
        """numpy.full"""
        return np.broadcast_to(np.asarray(self.value, dtype(self.dtype).numpy), shape)

    def compute(self, shape: Any) -> Any:
        """One loop nest."""
        kind = dtype(self.dtype)
        return _full(shape, p.const(self.value, kind), self.sugar)


@operator("relax.ones")
class Ones(_Filled):
    """1 everywhere."""

    value = 1


@operator("relax.zeros")
class Zeros(_Filled):
    """0 everywhere."""

    value = 0


class _FilledLike(OpDecl):
    """Base of ones_like and zeros_like."""

    __slots__ = ()
    value = 0

    x: Tensor
    dtype: str | None = None

    def infer(self, x: Any) -> Any:
        """Tensor of x's shape."""
        return replace(x, dtype=dtype(str(self.dtype)) if self.dtype else x.dtype)

    def numpy(self, x: Any) -> Any:
        """numpy.full"""
        kind = dtype(self.dtype or x.dtype.name).numpy
        return np.broadcast_to(np.asarray(self.value, kind), x.shape)

    def compute(self, x: Any) -> Any:
        """One loop nest, which reads nothing of x."""
        kind = dtype(str(self.dtype or x.dtype))
        return _full(x.shape, p.const(self.value, kind), self.sugar)


@operator("relax.ones_like")
class OnesLike(_FilledLike):
    """1 everywhere, in x's shape. dtype: of the result; None: that of x."""

    tir_name = "ones"
    value = 1


@operator("relax.zeros_like")
class ZerosLike(_FilledLike):
    """0 everywhere, in x's shape. dtype: of the result; None: that of x."""

    tir_name = "zeros"
    value = 0


@onnx("ConstantOfShape")
def onnx_constant_of_shape(n: OnnxNode, shape: Expr) -> Expr:
    """`value` is a tensor of one element; float32 0 where it is left out."""
    value = np.reshape(n.attr("value", np.zeros(1, np.float32)), ())
    return make_call(Full, shape_of(n, shape, "input"), const(np.array(value)))
