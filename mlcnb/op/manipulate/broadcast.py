"""Elements said more than once, and back: broadcast_to, collapse_sum_to, collapse_sum_like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.op._dims import broadcast_dims, broadcast_index, refuse, repeats, tell, tell_dims, tensor
from mlcnb.op._spell import shape_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Expr
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator
from mlcnb.relax.struct_info import ShapeStructInfo


@operator("relax.broadcast_to")
class BroadcastTo(OpDecl):
    """`x` repeated along its dimensions of 1 and along new leading ones, to `shape`.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.broadcast_to.html
    """

    moves = follows = True

    result_shape = "shape"

    shape_argument = "shape"

    x: Tensor
    shape: Shape

    @rule("SimplifyOps", "broadcast_to")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """To the shape that is there."""
        x: Any = call.args[0]
        return x if same_known(x.struct_info, call.struct_info) else None

    def infer(self, x: Any, shape: Any) -> Any:
        """Tensor of that shape and x's dtype."""
        if shape.values is None:
            return tensor(None, x.dtype, shape.ndim)
        if x.dims is not None and not fits(x.dims, shape.values):
            refuse(self, f"{tell(x)} does not broadcast to {tell_dims(shape.values)}")
        return tensor(shape.values, x.dtype)

    def numpy(self, x: Any, shape: Any) -> Any:
        """numpy.broadcast_to, as an array of its own"""
        return np.array(np.broadcast_to(x, shape))

    def compute(self, x: Any, shape: Any) -> Any:
        """One copy."""

        def source(*index: Any) -> Any:
            return x(*broadcast_index(index, x.shape, shape))

        return te.compute(tuple(shape), source, name="broadcast_to")


def fits(dims: Sequence[Any], shape: Sequence[Any]) -> bool:
    """False where a tensor of `dims` can never be broadcast to `shape`."""
    if len(dims) > len(shape):
        return False
    tail = shape[len(shape) - len(dims) :]
    return all(repeats(d, s) for d, s in zip(dims, tail, strict=True))


@onnx("Expand")
def onnx_expand(n: OnnxNode, x: Expr, shape: Expr) -> Expr:
    """Broadcasting goes both ways: a 1 in `shape` keeps the input's dimension."""
    dims, target = n.dims(x), shape_of(n, shape, "shape")
    result = broadcast_dims([dims, target])
    if result is None:
        n.refuse(f"{tell_dims(dims)} does not broadcast with {tell_dims(target)}")
    return make_call(BroadcastTo, x, result)


class CollapseSum(OpDecl):
    """What collapse_sum_to and _like have in common; `to` is a shape, or a tensor of that shape."""

    __slots__ = ()
    cost = 1
    tir_name = "collapse_sum"

    def infer(self, x: Any, to: Any) -> Any:
        """Tensor of that shape and x's dtype."""
        dims = to.values if isinstance(to, ShapeStructInfo) else to.dims
        if x.dims is not None and dims is not None and not fits(dims, x.dims):
            refuse(self, f"{tell(x)} does not collapse to {tell_dims(dims)}")
        return tensor(dims, x.dtype, to.ndim)

    def numpy(self, x: Any, to: Any) -> Any:
        """numpy.sum over those axes"""
        shape = getattr(to, "shape", to)
        lead = x.ndim - len(shape)
        axes = [i for i in range(x.ndim) if i < lead or (shape[i - lead] == 1 and x.shape[i] != 1)]
        return np.sum(x, axis=tuple(axes), keepdims=True, dtype=x.dtype).reshape(shape)

    def compute(self, x: Any, to: Any) -> Any:
        """One sum."""
        shape = getattr(to, "shape", to)
        lead = len(x.shape) - len(shape)
        summed = [
            i < lead or (as_int(shape[i - lead]) == 1 and as_int(d) != 1)
            for i, d in enumerate(x.shape)
        ]
        axes = {i: te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(x.shape) if summed[i]}

        def source(*index: Any) -> Any:
            place = [axes[i] if i in axes else index[i - lead] for i in range(len(x.shape))]
            return te.sum(x(*place), axis=list(axes.values())) if axes else x(*place)

        return te.compute(tuple(shape), source, name=self.sugar)


@operator("relax.collapse_sum_to")
class CollapseSumTo(CollapseSum):
    """The sum of `x` over the dimensions along which `shape` would be broadcast to x's shape."""

    result_shape = "shape"

    shape_argument = "shape"

    x: Tensor
    shape: Shape


@operator("relax.collapse_sum_like")
class CollapseSumLike(CollapseSum):
    """collapse_sum_to the shape of `collapse_target`."""

    x: Tensor
    collapse_target: Tensor
