"""nn.lrn: local response normalisation, across neighbouring channels (ONNX LRN).

out[n, c, …] = x[n, c, …] / (bias + alpha / size * sum over the window of x[n, c', …] ** 2) ** beta
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import all_of, as_int, cast, const, maximum, minimum
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, in_wide
from mlcnb.op._dims import refuse, size, tidy, want_axis, want_rank
from mlcnb.op._order import along_axis
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.traits import Order


@operator("relax.nn.lrn")
class Lrn(OpDecl):
    """Divides by a power of the squares around, along `axis`.

    The window has `size` elements: floor((size - 1) / 2) before, the rest after. With a `layout`
    ("NCHW16c") the window runs along its channels, which fill their blocks, whatever `axis` is.
    Source: Krizhevsky et al. 2012; https://onnx.ai/onnx/operators/onnx__LRN.html
    """

    x: Tensor
    size: int
    axis: int = 1
    bias: float = 1.0
    alpha: float = 1e-4
    beta: float = 0.75
    layout: str = ""

    sees_filling = True

    def in_order(self, order: Order) -> Any:
        """Along `axis`; one with a `layout` has its own order."""
        return None if self.layout else along_axis(self, order)

    def in_blocks(self, layout: str) -> Any:
        """Along the channels."""
        return replace(self, layout=layout) if self.axis in (1, -3) and not self.layout else None

    def infer(self, x: Any) -> Any:
        """Like x."""
        if self.layout:
            want_rank(self, f"x in {self.layout}", x, len(_layout.axes_in(self.layout)))
        else:
            want_axis(self, x)
        if self.size < 1:
            refuse(self, f"a window of size {self.size} is empty")
        return x

    def around(self, channels: Any) -> tuple[Any, Any]:
        """How many elements the window has before and after its own, at most all that there are."""
        sides, have = ((self.size - 1) // 2, self.size // 2), as_int(channels)
        if have is not None:
            return min(sides[0], max(have - 1, 0)), min(sides[1], max(have - 1, 0))
        others = maximum(channels - 1, 0)
        return minimum(sides[0], others), minimum(sides[1], others)

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, in float32 at least"""
        if self.layout:
            order = _layout.letters(self.layout)
            this: Any = self
            plain = replace(this, axis=order.index("C"), layout="")
            found = plain.numpy(_layout.to_plain(x, self.layout, order, {}))
            return _layout.from_plain(found, order, self.layout)
        axis = self.axis % x.ndim
        around = self.around(x.shape[axis])
        widths = [around if i == axis else (0, 0) for i in range(x.ndim)]
        squares = np.pad(np.square(x), widths)
        windows = np.lib.stride_tricks.sliding_window_view(squares, sum(around) + 1, axis)
        scaled = windows.sum(-1, dtype=x.dtype) * x.dtype.type(self.alpha / self.size)
        return x / np.power(scaled + x.dtype.type(self.bias), x.dtype.type(self.beta))

    def compute(self, x: Any) -> Any:
        """A sum of squares over the window, then one elementwise loop."""
        kind = accumulator(x.dtype)
        squares = self.blocked_squares(x, kind) if self.layout else self.squares(x, kind)

        def element(*index: Any) -> Any:
            around = squares(*index) * const(self.alpha / self.size, kind) + const(self.bias, kind)
            return cast(x.dtype, cast(kind, x(*index)) / self.to_beta(around, kind))

        return te.compute(x.shape, element, name="lrn")

    def squares(self, x: Any, kind: DType) -> Any:
        """The sum of the squares in the window around each element."""
        axis = self.axis % len(x.shape)
        before, after = self.around(x.shape[axis])
        r = te.reduce_axis((0, before + after + 1), name="r")

        def square(*index: Any) -> Any:
            at = index[axis] + r - before
            inside = all_of(
                *([at >= 0] if self.size > 2 else []),
                *([at < x.shape[axis]] if self.size > 1 else []),
            )
            value = cast(kind, x(*index[:axis], at, *index[axis + 1 :]))
            return te.sum(te.if_then_else(inside, value * value, const(0, kind)), axis=r)

        return te.compute(x.shape, square, name="lrn_squares")

    def blocked_squares(self, x: Any, kind: DType) -> Any:
        """The same in blocks: the squares of an element side by side, blocks of zeros around."""
        sizes, block = _layout.sizes_of(self.layout, x.shape), _layout.block_of(self.layout, "C")
        before, after = self.around(sizes["C"])
        front, back = -(-before // block), -(-after // block)
        blocks = sizes["C"] // block
        others = [d for d in sizes if d != "C"]

        def square(*index: Any) -> Any:
            *places, outer, inner = index
            found = {d: _layout.Place(i) for d, i in zip(others, places, strict=True)}
            found["C"] = _layout.Place(outer - front, inner)
            value = cast(kind, x(*_layout.index_in(self.layout, found)))
            inside = all_of(outer >= front, outer < blocks + front)
            return te.if_then_else(inside, value * value, const(0, kind))

        shape = (*(sizes[d] for d in others), blocks + front + back, block)
        single = te.compute(shape, square, name="lrn_single")
        r = te.reduce_axis((0, before + after + 1), name="r")

        def window(*index: Any) -> Any:
            found = _layout.places(self.layout, index)
            at = _layout.whole(found["C"], block) + r + (front * block - before)
            places = (found[d].outer for d in others)
            return te.sum(single(*places, at // block, at % block), axis=r)

        return te.compute(x.shape, window, name="lrn_squares")

    def to_beta(self, x: Any, kind: DType) -> Any:
        """x ** beta: of the usual 0.75 and 0.5, by square roots."""
        if self.beta == 0.75:
            return te.sqrt(x) * te.sqrt(te.sqrt(x))
        return te.sqrt(x) if self.beta == 0.5 else te.power(x, const(self.beta, kind))

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
