"""Convolution of quantised tensors, summed in int32: qnn.conv2d, and how it lies for a CPU.

    conv2d_NCHWc[n, o, y, x] += data[n, i, y * s + r, x * s + q] * weight[o, i, r, q]

data 4 · 16 channels in blocks, weight packed: four input channels of one output channel lie
together, which is what a dot product instruction takes.

    qconv2d_packed[n, o0, y, x, o1] +=
        data[n, i0, y * s + r, x * s + q, 4 * i1 + i2] * weight[o0, i0, r, q, i1, o1, i2]
    depthwise_qconv2d_packed[n, c0, y, x, c1] +=
        data[n, c0, y * s + r, x * s + 4 * q0 + q1, c1] * weight[c0, r, q0, c1, q1]

The raw numbers are multiplied: what zero points add is a constant for each channel, as long as the
padding is the data's zero point (`pad_value`), and goes into the bias (`mlcnb.op.qnn._build`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op import _layout
from mlcnb.op._dims import differ, product, refuse, tell, tensor, tidy, want_rank
from mlcnb.op.nn._conv_loops import conv_loops, pad_spatial
from mlcnb.op.nn._packed_window import NAMES, DenseWindow, PackedWindow, blocked
from mlcnb.op.nn.conv import Conv, correlate
from mlcnb.op.qnn.elementwise import BYTES, want_kind, want_scalar
from mlcnb.relax.operator import OpDecl, Tensor, operator

#: products that one instruction sums
DOT = 4


@operator("relax.qnn.conv2d")
class QuantizedConv2d(Conv):
    """2-D convolution of bytes, in int32: data (N, C, H, W), weight (O, C / groups, H, W).

    The padding is `pad_value`, one number of data's dtype. Sums wrap around in 32 bits.
    Semantics: https://onnx.ai/onnx/operators/onnx__ConvInteger.html, zero points apart.
    """

    data: Tensor
    weight: Tensor
    pad_value: Tensor
    strides: int | tuple[int, ...] = (1, 1)
    padding: int | tuple[int, ...] = (0, 0, 0, 0)
    dilation: int | tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str | None = None
    out_dtype: str | None = "int32"

    def infer(self, data: Any, weight: Any, pad_value: Any) -> Any:  # type: ignore[override]
        """As nn.conv2d, in int32."""
        want_kind(self, data=(data, BYTES), weight=(weight, BYTES), pad_value=(pad_value, BYTES))
        want_scalar(self, pad_value=pad_value)
        return Conv.infer(self, data, dataclasses.replace(weight, dtype=data.dtype))

    def numpy(self, data: Any, weight: Any, pad_value: Any) -> Any:  # type: ignore[override]
        """As nn.conv2d, of data with its padding"""
        around = self.around()
        widths = [around.get(c, (0, 0)) for c in _layout.letters(self.data_layout)]
        padded = np.pad(data, widths, constant_values=pad_value)
        return Conv.numpy(self.unpadded(), padded.astype(np.int32), weight.astype(np.int32))

    def compute(self, data: Any, weight: Any, pad_value: Any) -> Any:  # type: ignore[override]
        """`pad_temp` where there is padding, then one reduction."""
        padded = pad_spatial(data, self.data_layout, self.spatial, self.padding, pad_value())
        return conv_loops(self.unpadded(), padded, weight, dtype("int32"))

    def flops(self, data: Any, weight: Any, pad_value: Any) -> Any:  # type: ignore[override]
        """Two for each multiplication."""
        return Conv.flops(self, data, weight)

    def around(self) -> dict[str, tuple[int, int]]:
        """The padding before and after each spatial dimension."""
        pads: Any = self.padding
        rank = len(self.spatial)
        return {c: (pads[i], pads[rank + i]) for i, c in enumerate(self.spatial)}

    def unpadded(self) -> Any:
        """The same on data that has its padding."""
        this: Any = self
        return dataclasses.replace(this, padding=(0,) * (2 * len(self.spatial)))


def check_bytes(op: OpDecl, data: Any, weight: Any, pad_value: Any) -> None:
    """Refuse wrong dtypes."""
    want_kind(op, data=(data, BYTES), weight=(weight, BYTES), pad_value=(pad_value, BYTES))
    want_scalar(op, pad_value=pad_value)


@operator("relax.qnn.conv2d_packed")
class QuantizedConv2dPacked(DenseWindow):
    """qnn.conv2d on blocks: data (N, I / a, H, W, a), weight (O / b, I / a, H, W, a / 4, b, 4).

    The result is (N, O / b, H, W, b) int32. A block of input channels is a multiple of four. Of
    data with more channels the weight's are those of one group.
    """

    data: Tensor
    weight: Tensor
    pad_value: Tensor
    strides: int | tuple[int, ...] = (1, 1)
    padding: int | tuple[int, ...] = (0, 0, 0, 0)

    def infer(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """Samples, blocks of output channels, positions, channels of a block."""
        check_bytes(self, data, weight, pad_value)
        return self.result(data, weight, DOT, "int32")

    def numpy(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """As qnn.conv2d, on plain arrays"""
        return self.sums(data, weight, pad_value, np.int32)

    def compute(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """`pad_temp` where there is padding, then one reduction."""
        return self.loops(data, weight, pad_value(), "int32", "qconv2d_packed")

    def flops(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """Two for each multiplication."""
        return self.work(self.infer(data, weight, pad_value).dims, weight)


@operator("relax.qnn.depthwise_conv2d_packed")
class QuantizedDepthwiseConv2dPacked(PackedWindow):
    """Depthwise on blocks: data (N, C / b, H, W, b), weight (C / b, H, ceil(width / 4), b, 4).

    `width` is how many columns the kernel has; those that fill it up to a multiple of four must
    have weights of zero. The result is (N, C / b, H, W, b) int32.
    """

    data: Tensor
    weight: Tensor
    pad_value: Tensor
    width: int
    strides: int | tuple[int, ...] = (1, 1)
    padding: int | tuple[int, ...] = (0, 0, 0, 0)

    def infer(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """Samples, blocks of channels, positions, channels of a block."""
        check_bytes(self, data, weight, pad_value)
        want_rank(self, "data", data, 5)
        want_rank(self, "weight", weight, 5)
        if data.dims is None or weight.dims is None:
            return tensor(None, "int32", 5)
        outer, rows, groups, block, dot = weight.dims
        wrong = differ(outer, data.dims[1]) or differ(block, data.dims[4])
        if wrong or as_int(dot) != DOT or as_int(groups) != -(-self.width // DOT):
            refuse(self, f"{tell(data)} does not fit {tell(weight)}, {self.width} columns wide")
        places = self.places(data.dims[2:4], (rows, self.width))
        return tensor((*data.dims[:2], *places, block), "int32")

    def numpy(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """As qnn.conv2d, on plain arrays"""
        c, rows, groups, block, dot = weight.shape
        plain = weight.transpose(0, 3, 1, 2, 4).reshape(c * block, 1, rows, groups * dot)
        x = self.padded_array(data, pad_value, np.int32)
        kernel = plain[..., : self.width].astype(np.int32)
        found = correlate(x, kernel, self.steps(), (0,) * 4, (1, 1), c * block)
        return blocked(found, block)

    def compute(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """`pad_temp`, wide enough for the columns that are filled up; then one reduction."""
        outer, rows, groups, block, dot = weight.shape
        x = self.padded(data, pad_value(), -self.width % DOT)
        kh, q0 = te.reduce_axis((0, rows), name="kh"), te.reduce_axis((0, groups), name="kw")
        q1 = te.reduce_axis((0, dot), name="kw_dot")
        shape = (*data.shape[:2], *self.places(data.shape[2:4], (rows, self.width)), block)
        down, across = self.steps()

        def element(n: Any, o: Any, y: Any, z: Any, c: Any) -> Any:
            a = x(n, o, y * down + kh, z * across + q0 * dot + q1, c)
            b = weight(o, kh, q0, c, q1)
            return te.sum(cast("int32", a) * cast("int32", b), axis=[kh, q0, q1])

        return te.compute(shape, element, "depthwise_qconv2d_packed", varargs_names=NAMES)

    def flops(self, data: Any, weight: Any, pad_value: Any) -> Any:
        """Two for each multiplication."""
        found = self.infer(data, weight, pad_value).dims
        return None if found is None else tidy(product(found) * weight.dims[1] * self.width * 2)
