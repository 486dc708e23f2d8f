"""Shapes as values: shape_of, shape_to_tensor, tensor_to_shape, size; ONNX Shape and Size.

tensor --shape_of--> shape --shape_to_tensor--> int64 tensor --tensor_to_shape--> shape
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast, const
from mlcnb.op._dims import ints, product, refuse, tell, tensor, tidy, want_rank
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, shape_expr
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator
from mlcnb.relax.struct_info import ShapeStructInfo


@operator("relax.shape_of")
class ShapeOf(OpDecl):
    """The dimensions of `x`, as a shape. No loops: the runtime knows it."""

    x: Tensor

    def infer(self, x: Any) -> Any:
        """Shape of x's dimensions."""
        return ShapeStructInfo(x.dims, x.ndim)

    def numpy(self, x: Any) -> Any:
        """The array's shape"""
        return tuple(x.shape)


@operator("relax.shape_to_tensor")
class ShapeToTensor(OpDecl):
    """A shape as an int64 tensor of one dimension."""

    shape: Shape

    def infer(self, shape: Any) -> Any:
        """An int64 tensor with one element for each dimension."""
        return tensor([shape.ndim] if shape.ndim >= 0 else None, "int64", 1)

    def numpy(self, shape: Any) -> Any:
        """An array of the dimensions"""
        return np.array(shape, np.int64)

    def compute(self, shape: Any) -> Any:
        """One loop that asks for each place which dimension it holds."""
        dims = [cast("int64", d) for d in shape]

        def element(i: Any) -> Any:
            value = dims[-1] if dims else const(0, "int64")
            for at in range(len(dims) - 2, -1, -1):
                value = te.if_then_else(i == at, dims[at], value)
            return value

        return te.compute((len(dims),), element, name="shape_to_tensor")


@operator("relax.tensor_to_shape")
class TensorToShape(OpDecl):
    """An int64 tensor of one dimension as a shape. No loops: the runtime reads it."""

    x: Tensor

    def infer(self, x: Any) -> Any:
        """A shape of as many dimensions as x has elements."""
        want_rank(self, "x", x, 1)
        if x.dtype and x.dtype != "int64":
            refuse(self, f"x must be int64, but is {tell(x)}")
        count = None if x.dims is None else as_int(x.dims[0])
        return ShapeStructInfo(None, -1 if count is None else count)

    def numpy(self, x: Any) -> Any:
        """The elements as a tuple"""
        return tuple(int(v) for v in x)


@operator("relax.size")
class Size(OpDecl):
    """How many elements `x` has: an int64 tensor without dimensions."""

    x: Tensor

    def infer(self, x: Any) -> Any:
        """An int64 scalar."""
        return tensor([], "int64")

    def numpy(self, x: Any) -> Any:
        """numpy.size"""
        return np.array(np.size(x), np.int64)

    def compute(self, x: Any) -> Any:
        """One element."""
        return te.compute((), lambda: cast("int64", tidy(product(x.shape))), name="size")


@onnx("Shape")
def onnx_shape(n: OnnxNode, x: Expr) -> Expr:
    """The dimensions from `start` to `end` (opset 15), a constant where all are known."""
    dims = n.dims(x)[n.attr("start", 0) : n.attr("end", None)]
    known = ints(dims)
    if known is not None:
        return constant(np.array(known, np.int64))
    return make_call(ShapeToTensor, shape_expr(dims))


@onnx("Size")
def onnx_size(n: OnnxNode, x: Expr) -> Expr:
    """How many elements, a constant where that is known."""
    total = as_int(tidy(product(n.dims(x))))
    return make_call(Size, x) if total is None else constant(np.array(total, np.int64))


@onnx("Identity")
def onnx_identity(n: OnnxNode, x: Expr) -> Expr:
    """The input."""
    return x
