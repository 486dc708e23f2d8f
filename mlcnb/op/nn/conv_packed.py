"""nn.conv2d on blocked channels, packed for instructions that sum two products of bfloat16.

What a convolution with constant weights becomes when it is compiled for a CPU that has one; the
loops are in `mlcnb.op.nn._packed_window`.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import const
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import want_same_dtype
from mlcnb.op.linear_algebra.packed import PAIR
from mlcnb.op.nn._packed_window import DenseWindow
from mlcnb.relax.operator import Tensor, operator


@operator("relax.nn.conv2d_packed")
class Conv2dPacked(DenseWindow):
    """nn.conv2d on blocks: data (N, I / a, H, W, a), weight (O / b, I / a, H, W, a / 2, b, 2).

    The result is (N, O / b, H, W, b) in `out_dtype`, by default that of data; a block of input
    channels is even. Float16 and bfloat16 are summed in float32 and rounded once, at the end.
    """

    data: Tensor
    weight: Tensor
    strides: int | tuple[int, ...] = (1, 1)
    padding: int | tuple[int, ...] = (0, 0, 0, 0)
    out_dtype: str | None = None

    def infer(self, data: Any, weight: Any) -> Any:
        """Samples, blocks of output channels, positions, channels of a block."""
        want_same_dtype(self, data=data, weight=weight)
        return self.result(data, weight, PAIR, self.out_dtype or data.dtype)

    def numpy(self, data: Any, weight: Any) -> Any:
        """As nn.conv2d, on plain arrays"""
        kind = dtype(self.out_dtype or data.dtype.name)
        found = self.sums(data, weight, 0, accumulator(kind).numpy)
        return found.astype(kind.numpy, copy=False)

    def compute(self, data: Any, weight: Any) -> Any:
        """`pad_temp` where there is padding, one reduction, a rounding of half precision."""
        kind = dtype(self.out_dtype or data.dtype)
        zero = const(0, data.dtype)
        found = self.loops(data, weight, zero, accumulator(kind), "conv2d_pairs_packed")
        return rounded(found, kind, "conv_cast")

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each multiplication."""
        return self.work(self.infer(data, weight).dims, weight)
