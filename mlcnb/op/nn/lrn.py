"""nn.lrn: local response normalisation, across neighbouring channels (ONNX LRN).

out[n, c, …] = x[n, c, …] / (bias + alpha / size * sum over the window of x[n, c', …] ** 2) ** beta
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import all_of, cast, const
from mlcnb.op._accumulate import accumulator, in_wide
from mlcnb.op._dims import axis_at, refuse, size, tidy
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.nn.lrn")
class Lrn(OpDecl):
    """Divides by a power of the squares around, along `axis`.

    The window has `size` elements: floor((size - 1) / 2) before, the rest after.
    Source: Krizhevsky et al. 2012; https://onnx.ai/onnx/operators/onnx__LRN.html
    """

    x: Tensor
    size: int
    axis: int = 1
    bias: float = 1.0
    alpha: float = 1e-4
    beta: float = 0.75

    def infer(self, x: Any) -> Any:
        """Like x."""
        if x.ndim != -1:
            axis_at(self, self.axis, x.ndim, x)
        if self.size < 1:
            refuse(self, f"a window of size {self.size} is empty")
        return x

    def around(self) -> tuple[int, int]:
        """How many elements the window has before and after its own."""
        return (self.size - 1) // 2, self.size // 2

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, in float32 at least"""
        axis = self.axis % x.ndim
        widths = [self.around() if i == axis else (0, 0) for i in range(x.ndim)]
        squares = np.pad(np.square(x), widths)
        windows = np.lib.stride_tricks.sliding_window_view(squares, self.size, axis)
        scaled = windows.sum(-1, dtype=x.dtype) * x.dtype.type(self.alpha / self.size)
        return x / np.power(scaled + x.dtype.type(self.bias), x.dtype.type(self.beta))

    def compute(self, x: Any) -> Any:
        """A sum of squares over the window, then one elementwise loop."""
        axis, kind = self.axis % len(x.shape), accumulator(x.dtype)
        before, after = self.around()
        r = te.reduce_axis((0, self.size), name="r")

        def square(*index: Any) -> Any:
            at = index[axis] + r - before
            inside = all_of(
                *([at >= 0] if before else []), *([at < x.shape[axis]] if after else [])
            )
            value = cast(kind, x(*index[:axis], at, *index[axis + 1 :]))
            return te.sum(te.if_then_else(inside, value * value, const(0, kind)), axis=r)

        squares = te.compute(x.shape, square, name="lrn_squares")

        def element(*index: Any) -> Any:
            around = squares(*index) * const(self.alpha / self.size, kind) + const(self.bias, kind)
            value = cast(kind, x(*index)) / te.power(around, const(self.beta, kind))
            return cast(x.dtype, value)

        return te.compute(x.shape, element, name="lrn")

    def flops(self, x: Any) -> Any:
        """Two for each element of each window, and four for the rest."""
        return None if x.dims is None else tidy(size(x) * (2 * self.size + 4))


@onnx("LRN")
def onnx_lrn(n: OnnxNode, x: Expr) -> Expr:
    """Over channels, axis 1."""
    return make_call(
        Lrn,
        x,
        size=n.require("size"),
        bias=n.attr("bias", 1.0),
        alpha=n.attr("alpha", 1e-4),
        beta=n.attr("beta", 0.75),
    )
