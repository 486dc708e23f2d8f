"""The same elements in another order of dimensions: permute_dims (ONNX Transpose)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir.rules import rule
from mlcnb.op._dims import axes_at, refuse, tell, tensor
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Call, Expr
from mlcnb.relax.operator import OpDecl, Tensor, attrs_of, called, make_call, operator
from mlcnb.relax.traits import Order


@operator("relax.permute_dims")
class PermuteDims(OpDecl):
    """Dimension `i` of the result is dimension `axes[i]` of `x` (default: reversed).

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.transpose.html
    """

    moves = follows = True
    tir_name = "transpose"

    x: Tensor
    axes: tuple[int, ...] | None = None

    def in_order(self, order: Order) -> Any:
        """The same result, from where the dimensions lie now."""
        axes = tuple(order.index(a) for a in self.order(len(order)))
        return replace(self, axes=axes), tuple(range(len(order)))

    @rule("SimplifyOps", "permute_dims")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """The permutation that changes nothing; two in a row as one."""
        x: Any = call.args[0]
        ndim, before = x.struct_info.ndim, value_of(x)
        if ndim < 0:
            return None
        order, plain = self.order(ndim), tuple(range(ndim))
        if order == plain:
            return x
        if called(before) is not PermuteDims:
            return None
        first = attrs_of(before).order(ndim)  # type: ignore[attr-defined]
        both = tuple(first[i] for i in order)
        source = before.args[0]
        return source if both == plain else make_call(PermuteDims, source, axes=both)

    def infer(self, x: Any) -> Any:
        """x's dimensions in the new order."""
        if x.ndim == -1:
            return tensor(None, x.dtype, -1 if self.axes is None else len(self.axes))
        order = self.order(x.ndim, x)
        if order == tuple(range(x.ndim)):
            return x
        return tensor(None if x.dims is None else [x.dims[a] for a in order], x.dtype, x.ndim)

    def order(self, ndim: int, info: Any = None) -> tuple[int, ...]:
        """The axes, counted from the front."""
        if self.axes is None:
            return tuple(reversed(range(ndim)))
        if len(self.axes) != ndim:
            what = tell(info) if info is not None else f"a tensor of {ndim} dimensions"
            refuse(self, f"axes {self.axes} are not one for each dimension of {what}")
        return axes_at(self, self.axes, ndim, info)

    def numpy(self, x: Any) -> Any:
        """numpy.transpose"""
        return np.transpose(x, self.order(np.ndim(x)))

    def compute(self, x: Any) -> Any:
        """One copy."""
        order = self.order(len(x.shape))
        place = sorted(range(len(order)), key=order.__getitem__)

        def source(*index: Any) -> Any:
            return x(*(index[p] for p in place))

        return te.compute([x.shape[a] for a in order], source, name="permute_dims")


@onnx("Transpose")
def onnx_transpose(n: OnnxNode, data: Expr) -> Expr:
    """`perm` says which dimension comes where; default: reversed."""
    perm = n.attr("perm")
    return make_call(PermuteDims, data, axes=perm or tuple(reversed(range(len(n.dims(data))))))
