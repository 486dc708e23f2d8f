"""Transposed convolution: nn.conv1d_transpose, nn.conv2d_transpose, nn.conv3d_transpose.

The gradient of a convolution to its input, as a convolution of its own: the input with stride - 1
zeros between its elements (and padding around), in `pad_temp`, under the kernel turned around.

    output = (input - 1) * stride - padding + (kernel - 1) * dilation + 1 + output_padding
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import all_of, as_int, cast, const, equal
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import (
    differ,
    ints,
    one_dtype,
    product,
    refuse,
    tell,
    tell_dims,
    tensor,
    tidy,
)
from mlcnb.op._layout import Place
from mlcnb.op._spell import want_sizes
from mlcnb.op.nn._window import PerDimension, each, of_each_rank, settle
from mlcnb.op.nn.conv import Convolution, correlate, with_bias
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call


class ConvTranspose(Convolution):
    """{rank}-D: data (N, C, {letters}), weight (C, O / groups, {letters}) in the default layouts.

    Semantics: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """

    __slots__ = ()
    channels = "IO"

    data: Tensor
    weight: Tensor
    strides: PerDimension = (1,)
    padding: PerDimension = (0, 0)
    output_padding: PerDimension = (0,)
    dilation: PerDimension = (1,)
    groups: int = 1
    data_layout: str = "NCW"
    kernel_layout: str = "IOW"
    out_layout: Any = None
    out_dtype: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, output_padding=each(self.output_padding, len(self.spatial)))

    def infer(self, data: Any, weight: Any) -> Any:
        """Sample, output channels and positions, in `out_layout`."""
        self.check(data, weight)
        kind = self.out_dtype or one_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return tensor(None, kind, len(self.spatial) + 2)
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        whole = tidy(sizes["C"] // self.groups * self.groups)
        if differ(sizes["C"], kernel["I"]) or differ(sizes["C"], whole):
            where = f"{tell(weight)} in {self.kernel_layout} do not fit {self.groups} groups"
            refuse(self, f"the channels of {tell(data)} in {self.data_layout} and of {where}")
        return tensor(_layout.shape_in(self.out_layout, self.result(sizes, kernel)), kind)

    def result(self, sizes: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
        """The sizes of the result's dimensions."""
        found = {"N": sizes["N"], "C": tidy(kernel["O"] * self.groups)}
        rank = len(self.spatial)
        for i, c in enumerate(self.spatial):
            pad = self.padding[i] + self.padding[rank + i] - self.output_padding[i]
            reach = (kernel[c] - 1) * self.dilation[i] + 1
            found[c] = tidy((sizes[c] - 1) * self.strides[i] - pad + reach)
            if (as_int(found[c]) or 0) < 0:
                refuse(self, f"padding {self.padding} leaves less than nothing of dimension {c}")
        return found

    def check(self, data: Any, weight: Any) -> None:
        """Refuse layouts and attributes that do not fit each other or the tensors."""
        self.want_layouts(in_blocks=False)
        rank = len(self.spatial)
        lengths = [len(a) for a in (self.strides, self.dilation, self.output_padding, self.padding)]
        if lengths != [rank, rank, rank, 2 * rank] or min(*self.strides, *self.dilation) < 1:
            refuse(
                self,
                f"strides {self.strides}, dilation {self.dilation}, padding {self.padding}, "
                f"output_padding {self.output_padding} do not fit {rank} spatial dimensions",
            )
        _layout.want_tensors(self, data, weight)

    def around(self, kernel: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Padding of the spread-out input, before and after, for each spatial dimension."""
        rank, found = len(self.spatial), {}
        for i, c in enumerate(self.spatial):
            reach = (kernel[c] - 1) * self.dilation[i]
            after = reach - self.padding[rank + i] + self.output_padding[i]
            found[c] = (tidy(reach - self.padding[i]), tidy(after))
        return found

    def numpy(self, data: Any, weight: Any) -> Any:
        """The spread-out input, correlated with the kernel turned around"""
        kind = dtype(self.out_dtype or data.dtype.name)
        wide = accumulator(kind).numpy
        x = _layout.to_plain(data, self.data_layout, "NC" + self.spatial, {}).astype(wide)
        w = _layout.to_plain(weight, self.kernel_layout, "IO" + self.spatial, {}).astype(wide)
        spread = self.spread(x, dict(zip(self.spatial, w.shape[2:], strict=True)))
        rank = len(self.spatial)
        turned = np.flip(w, tuple(range(2, 2 + rank)))
        inner = w.shape[0] // self.groups
        grouped = turned.reshape(self.groups, inner, *w.shape[1:]).swapaxes(1, 2)
        kernel = grouped.reshape(-1, inner, *w.shape[2:])
        ones = (1,) * rank
        found = correlate(spread, kernel, ones, (0,) * (2 * rank), self.dilation, self.groups)
        plain = found.astype(kind.numpy, copy=False)
        return _layout.from_plain(plain, "NC" + self.spatial, self.out_layout)

    def spread(self, x: np.ndarray, kernel: dict[str, Any]) -> np.ndarray:
        """(N, C, …) with zeros between and around."""
        sizes = [(d - 1) * s + 1 for d, s in zip(x.shape[2:], self.strides, strict=True)]
        apart = np.zeros((*x.shape[:2], *sizes), x.dtype)
        apart[(slice(None), slice(None), *(slice(None, None, s) for s in self.strides))] = x
        around = list(self.around(kernel).values())
        keep = [slice(max(-b, 0), d - max(-a, 0)) for (b, a), d in zip(around, sizes, strict=True)]
        kept = apart[(slice(None), slice(None), *keep)]
        return np.pad(kept, [(0, 0), (0, 0), *((max(b, 0), max(a, 0)) for b, a in around)])

    def compute(self, data: Any, weight: Any) -> Any:
        """`pad_temp`, then one reduction; half precision is rounded after."""
        kind = dtype(self.out_dtype or data.dtype)
        found = self.loops(data, weight, accumulator(kind))
        return rounded(found, kind, "conv_cast")

    def pad_temp(self, data: Any, kernel: dict[str, Any]) -> Any:
        """te tensor of the spread-out, padded input."""
        sizes = _layout.sizes_of(self.data_layout, data.shape)
        around, shape = self.around(kernel), dict(sizes)
        for i, c in enumerate(self.spatial):
            shape[c] = (sizes[c] - 1) * self.strides[i] + 1 + sum(around[c])

        def element(*index: Any) -> Any:
            found, real = _layout.places(self.data_layout, index), []
            for i, c in enumerate(self.spatial):
                stride, at = self.strides[i], found[c].outer - around[c][0]
                real += [at >= 0, at <= (sizes[c] - 1) * stride]
                real += [at % stride == 0] if stride > 1 else []
                found[c] = Place(at // stride)
            value = data(*_layout.index_in(self.data_layout, found))
            return te.if_then_else(all_of(*real), value, const(0, data.dtype))

        return te.compute(_layout.shape_in(self.data_layout, shape), element, name="pad_temp")

    def loops(self, data: Any, weight: Any, kind: Any) -> Any:
        """te tensor of the sums."""
        kernel = _layout.sizes_of(self.kernel_layout, weight.shape)
        sizes = _layout.sizes_of(self.data_layout, data.shape)
        padded = self.pad_temp(data, kernel)
        inner = kernel["I"] // self.groups
        channel = te.reduce_axis((0, inner), name="rc")
        taps = {c: te.reduce_axis((0, kernel[c]), name=f"r{c.lower()}") for c in self.spatial}

        def element(*index: Any) -> Any:
            out = _layout.places(self.out_layout, index)
            there, here = {"N": out["N"]}, {}
            for i, c in enumerate(self.spatial):
                there[c] = Place(out[c].outer + taps[c] * self.dilation[i])
                here[c] = Place(kernel[c] - 1 - taps[c])
            group = 0 if self.groups == 1 else out["C"].outer // kernel["O"]
            source = channel if self.groups == 1 else group * inner + channel
            there["C"], here["I"] = Place(source), Place(source)
            here["O"] = out["C"] if self.groups == 1 else Place(out["C"].outer % kernel["O"])
            a = padded(*_layout.index_in(self.data_layout, there))
            b = weight(*_layout.index_in(self.kernel_layout, here))
            return te.sum(cast(kind, a) * cast(kind, b), axis=[channel, *taps.values()])

        shape = _layout.shape_in(self.out_layout, self.result(sizes, kernel))
        name = f"conv{len(self.spatial)}d_transpose_{self.out_layout.lower()}"
        return te.compute(shape, element, name=name)

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each weight that an input element meets."""
        if data.dims is None or weight.dims is None:
            return None
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        each_input = product([kernel["O"], *(kernel[c] for c in self.spatial)])
        return tidy(product(data.dims) * each_input * 2)


Conv1dTranspose, Conv2dTranspose, Conv3dTranspose = of_each_rank(
    "relax.nn.conv{}d_transpose", ConvTranspose
)
BY_RANK: dict[int, type[OpDecl]] = {3: Conv1dTranspose, 4: Conv2dTranspose, 5: Conv3dTranspose}


@onnx("ConvTranspose")
def onnx_conv_transpose(n: OnnxNode, x: Expr, w: Expr, b: Expr | None = None) -> Expr:
    """Of 1 to 3 spatial dimensions; `output_shape` and `auto_pad` become padding."""
    dims, kernel = n.dims(x), n.attr("kernel_shape") or n.dims(w)[2:]
    rank = len(dims) - 2
    if len(dims) not in BY_RANK or len(kernel) != rank or len(n.dims(w)) != len(dims):
        n.refuse(
            f"a transposed convolution over {rank} spatial dimensions", hint="1 to 3 are there"
        )
    for given, size in zip(n.dims(w)[2:], kernel, strict=True):
        want_sizes(n, equal(given, size), f"a kernel of {tell_dims(n.dims(w))}, not of {kernel}")
    strides = n.attr("strides") or (1,) * rank
    dilation = n.attr("dilations") or (1,) * rank
    extra = n.attr("output_padding") or (0,) * rank
    result = make_call(
        BY_RANK[len(dims)],
        x,
        w,
        strides=strides,
        padding=_padding(n, dims[2:], kernel, strides, dilation, extra),
        output_padding=extra,
        dilation=dilation,
        groups=n.attr("group", 1),
    )
    return result if b is None else with_bias(n, result, b, rank)


def _padding(
    n: OnnxNode, spatial: Any, kernel: Any, strides: Any, dilation: Any, extra: Any
) -> tuple[int, ...]:
    """`pads`, or what gives the shape that is asked for."""
    mode, shape, rank = n.attr("auto_pad", "NOTSET"), n.attr("output_shape"), len(kernel)
    if shape is None and mode in ("NOTSET", "VALID", ""):
        return tuple(n.attr("pads") or (0,) * (2 * rank))
    want = shape or [d * s for d, s in zip(spatial, strides, strict=True)]
    total = ints(
        [
            tidy(s * (d - 1) + e + (k - 1) * a + 1 - w)
            for d, k, s, a, e, w in zip(
                spatial, kernel, strides, dilation, extra, want, strict=True
            )
        ]
    )
    if total is None:
        n.refuse("this padding by output_shape or auto_pad needs known sizes")
    half, rest = [t // 2 for t in total], [t - t // 2 for t in total]
    return tuple(half + rest if mode == "SAME_UPPER" else rest + half)
