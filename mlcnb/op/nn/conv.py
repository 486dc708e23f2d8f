"""Convolution: nn.conv1d, nn.conv2d, nn.conv3d.

    pad_temp[n, c, h, w] = data, with zeros around
    conv2d_nchw[n, f, y, x] +=
        pad_temp[n, rc, y * s + ry * d, x * s + rx * d] * weight[f, rc, ry, rx]

Layouts are read from their letters (`mlcnb.op._layout`), so "NCHW16c" with "OIHW16i16o" is the same
loop nest with the channels cut in two. The block is named after its kind and layout: conv2d_nchw,
conv2d_NCHWc, depthwise_conv2d_nchw, group_conv2d_nhwc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import (
    differ,
    one_dtype,
    product,
    refuse,
    tell,
    tensor,
    tidy,
    unlike,
)
from mlcnb.op._spell import call
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.nn._conv_loops import conv_loops
from mlcnb.op.nn._same import same_padded
from mlcnb.op.nn._window import (
    PerDimension,
    Seen,
    each,
    extent,
    no_void,
    of_each_rank,
    onnx_pads,
    seen,
    settle,
    sides,
    taps,
)
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call


class Convolution(OpDecl):
    """What convolutions have in common, transposed or not: data, weight, and how they lie."""

    __slots__ = ()
    product = rounds = True
    #: the letters of the weight's channels
    channels: ClassVar[str]

    def __post_init__(self) -> None:
        given: Any = self
        rank = len(self.spatial)
        settle(
            self,
            strides=each(given.strides, rank),
            padding=sides(given.padding, rank),
            dilation=each(given.dilation, rank),
            out_layout=given.out_layout or given.data_layout,
            out_dtype=no_void(given.out_dtype),
        )

    @property
    def spatial(self) -> str:
        """The letters of the spatial dimensions: "HW"."""
        return "".join(c for c in "DHW" if c in self["data_layout"])

    @property
    def is_plain(self) -> bool:
        """True if nothing is blocked or turned: channels, then the spatial dimensions."""
        names = ("data_layout", "kernel_layout", "out_layout")
        return [self[n] for n in names] == [c + self.spatial for c in ("NC", self.channels, "NC")]

    def want_layouts(self, in_blocks: bool = True) -> None:
        """Refuse layouts that do not name the dimensions."""
        images, kernel = f"NC{self.spatial}", f"{self.channels}{self.spatial}"
        _layout.want_letters(
            self, in_blocks, data_layout=images, out_layout=images, kernel_layout=kernel
        )


class Conv(Convolution):
    """{rank}-D convolution: data (N, C, {letters}), weight (O, C / groups, {letters}) by default.

    padding: all beginnings, then all ends: (top, left, bottom, right); float16 and bfloat16 are
    summed in float32. Semantics: https://onnx.ai/onnx/operators/onnx__Conv.html
    """

    __slots__ = ()
    channels = "OI"

    data: Tensor
    weight: Tensor
    strides: PerDimension = (1,)
    padding: PerDimension = (0, 0)
    dilation: PerDimension = (1,)
    groups: int = 1
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"
    out_layout: Any = None
    out_dtype: str | None = None

    def infer(self, data: Any, weight: Any) -> Any:
        """Sample, output channels and positions, in `out_layout`."""
        self.check(data, weight)
        ndim = len(_layout.axes_in(self.out_layout))
        kind = self.out_dtype or one_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return tensor(None, kind, ndim)
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        self.check_channels(sizes["C"], kernel["I"], kernel["O"], data, weight)
        places = self.places(sizes, kernel)
        if any(p < 1 for p in map(as_int, places.values()) if p is not None):
            refuse(
                self, f"the window of {tell(weight)} is larger than {tell(data)} with its padding"
            )
        found = {"N": sizes["N"], "C": kernel["O"], **places}
        return tensor(_layout.shape_in(self.out_layout, found), kind)

    def validate(self) -> None:
        """Refuse windows that do not fit the spatial dimensions."""
        rank = len(self.spatial)
        lengths = (len(self.strides), len(self.dilation), len(self.padding))
        if lengths != (rank, rank, 2 * rank) or min(*self.strides, *self.dilation, self.groups) < 1:
            refuse(
                self,
                f"strides {self.strides}, dilation {self.dilation}, padding {self.padding}, "
                f"groups {self.groups} do not fit {rank} spatial dimensions",
            )

    def check(self, data: Any, weight: Any) -> None:
        """Refuse layouts and attributes that do not fit each other or the tensors."""
        self.want_layouts()
        self.validate()
        _layout.want_tensors(self, data, weight)

    def check_channels(self, channels: Any, inner: Any, outer: Any, data: Any, weight: Any) -> None:
        """Refuse channels that do not go into the groups.

        Blocks that are filled up hold more channels than a kernel that is not cut reads.
        """
        block = _layout.block_of(self.data_layout, "C")
        if block and self.groups == 1 and not _layout.block_of(self.kernel_layout, "I"):
            inner = tidy((inner + (block - 1)) // block * block)
        filled = _layout.block_of(self.data_layout, "C") and as_int(inner) == 1
        if filled and not unlike(channels, outer):
            return
        wrong = differ(channels, inner * self.groups)
        if wrong or as_int(tidy(outer % self.groups)) not in (None, 0):
            refuse(
                self,
                f"the channels of {tell(data)} in {self.data_layout} and of {tell(weight)} in "
                f"{self.kernel_layout} do not fit {self.groups} groups",
            )

    def places(self, sizes: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
        """How many positions the window has in each spatial dimension."""
        rank, found = len(self.spatial), {}
        for i, c in enumerate(self.spatial):
            pad = self.padding[i] + self.padding[rank + i]
            found[c] = extent(sizes[c], pad, kernel[c], self.strides[i], self.dilation[i])
        return found

    def seeing(self, data: Any, weight: Any) -> tuple[Conv, list[slice]]:
        """This convolution without the places of the kernel that only ever see padding, and what
        is left of each axis of the weight; itself where all of them see something.
        """
        rank, kept = len(self.spatial), {}
        sizes = _layout.sizes_of(self.data_layout, data)
        kernel = _layout.sizes_of(self.kernel_layout, weight)
        if any(as_int(kernel[c]) is None for c in self.spatial):
            return self, []
        for i, c in enumerate(self.spatial):
            pads = (self.padding[i], self.padding[rank + i])
            given = Seen(range(int(kernel[c])), *pads, self.strides[i], self.dilation[i])
            kept[c] = seen(given, sizes[c])
        found = kept.values()
        padding = (*(x.before for x in found), *(x.after for x in found))
        made = replace(
            self,
            padding=padding,
            strides=tuple(x.stride for x in found),
            dilation=tuple(x.dilation for x in found),
        )
        axes = [a.letter for a in _layout.axes_in(self.kernel_layout)]
        taps = {c: x.taps for c, x in kept.items()}
        if all(len(x) == as_int(kernel[c]) for c, x in taps.items()):
            return (self if padding == self.padding else made), []
        return made, [
            slice(taps[a].start, taps[a].stop) if a in taps else slice(None) for a in axes
        ]

    def numpy(self, data: Any, weight: Any) -> Any:
        """Sum over the places of the kernel of shifted, strided data times weights."""
        conv, cuts = self.seeing(data.shape, weight.shape)
        return conv.summed(data, weight[tuple(cuts)])

    def summed(self, data: Any, weight: Any) -> Any:
        """The sum over all places of the kernel."""
        kind = dtype(self.out_dtype or data.dtype.name)
        wide = accumulator(kind).numpy
        w = _layout.to_plain(weight, self.kernel_layout, "OI" + self.spatial, {}).astype(wide)
        filled = {"C": w.shape[1]} if self.groups == 1 else {}
        x = _layout.to_plain(data, self.data_layout, "NC" + self.spatial, filled).astype(wide)
        groups = x.shape[1] if w.shape[1] == 1 and w.shape[0] == x.shape[1] else self.groups
        found = correlate(x, w, self.strides, self.padding, self.dilation, groups)
        plain = found.astype(kind.numpy, copy=False)
        return _layout.from_plain(plain, "NC" + self.spatial, self.out_layout)

    def compute(self, data: Any, weight: Any) -> Any:
        """`pad_temp` where there is padding, one reduction, a rounding of half precision."""
        kind = dtype(self.out_dtype or data.dtype)
        conv, cuts = self.seeing(data.shape, weight.shape)
        found = conv_loops(conv, data, _cut(weight, cuts), accumulator(kind))
        return rounded(found, kind, "conv_cast")

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each multiplication."""
        result = self.infer(data, weight)
        if result.dims is None:
            return None
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        per_output = product([kernel["I"], *(kernel[c] for c in self.spatial)])
        return tidy(product(result.dims) * per_output * 2)


def _cut(x: Any, cuts: list[slice]) -> Any:
    """A te tensor with a part of each dimension; itself where nothing is cut."""
    if not cuts:
        return x
    firsts = [c.start or 0 for c in cuts]
    shape = [d if c.stop is None else c.stop - c.start for c, d in zip(cuts, x.shape, strict=True)]

    def kept(*index: Any) -> Any:
        return x(*(i + first for i, first in zip(index, firsts, strict=True)))

    return te.compute(shape, kept, name="kernel_seen")


def correlate(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Grouped cross-correlation of (N, C, …) with (O, C / groups, …).

    Raises:
        ExecutionError: the window is larger than what it goes over.
    """
    rank = len(strides)
    around = list(zip(padding[:rank], padding[rank:], strict=True))
    kept = [
        slice(max(-b, 0), d - max(-a, 0)) for (b, a), d in zip(around, x.shape[2:], strict=True)
    ]
    x = x[(slice(None), slice(None), *kept)]
    padded = np.pad(x, [(0, 0), (0, 0), *((max(b, 0), max(a, 0)) for b, a in around)])
    kernel = w.shape[2:]
    out = [
        extent(size, 0, k, s, d)
        for size, k, s, d in zip(padded.shape[2:], kernel, strides, dilation, strict=True)
    ]
    if min(out) < 1:
        raise ExecutionError(
            f"a window of {kernel} places, {tuple(dilation)} apart, is larger than the "
            f"{padded.shape[2:]} elements that a run gave with their padding"
        )
    grouped = padded.reshape(x.shape[0], groups, w.shape[1], *padded.shape[2:])
    weights = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    total = np.zeros((x.shape[0], groups, weights.shape[1], *out), x.dtype)
    for tap, there in taps(grouped, kernel, out, strides, dilation, first=3):
        total += np.einsum("ngi...,goi->ngo...", there, weights[(..., *tap)])
    return total.reshape(x.shape[0], w.shape[0], *out)


Conv1d, Conv2d, Conv3d = of_each_rank("relax.nn.conv{}d", Conv)
BY_RANK: dict[int, type[OpDecl]] = {3: Conv1d, 4: Conv2d, 5: Conv3d}


@onnx("Conv")
def onnx_conv(n: OnnxNode, x: Expr, w: Expr, b: Expr | None = None) -> Expr:
    """Of 1 to 3 spatial dimensions; the kernel's shape is the weight's."""
    window = onnx_window(n, x, w, is_padded=True)
    kernel = [as_int(k) for k in n.dims(w)[2:]]
    x = same_padded(n, x, kernel, window["strides"], window["dilation"], 0.0)
    result = make_call(BY_RANK[len(n.dims(x))], x, w, **window)
    return result if b is None else with_bias(n, result, b, len(n.dims(x)) - 2)


def onnx_window(n: OnnxNode, x: Expr, w: Expr, is_padded: bool = False) -> dict[str, Any]:
    """strides, padding, dilation and groups of a convolution's node.

    is_padded: as of `onnx_pads`.
    """
    dims, shape = n.dims(x), n.dims(w)
    rank = len(dims) - 2
    if len(dims) not in BY_RANK:
        n.refuse(f"a convolution over {rank} spatial dimensions", hint="1 to 3 are there")
    kernel = n.attr("kernel_shape") or tuple(shape[2:])
    same = len(kernel) == len(shape[2:]) == rank
    if not same or any(differ(a, b) for a, b in zip(kernel, shape[2:], strict=True)):
        n.refuse(f"kernel_shape {kernel} is not that of the weight")
    strides = n.attr("strides") or (1,) * rank
    dilation = n.attr("dilations") or (1,) * rank
    return {
        "strides": strides,
        "padding": onnx_pads(
            n, dims[2:], [as_int(k) for k in kernel], strides, dilation, is_padded
        ),
        "dilation": dilation,
        "groups": n.attr("group", 1),
    }


def with_bias(n: OnnxNode, result: Expr, bias: Expr, rank: int) -> Expr:
    """result + bias, one number a channel, of (N, C, …)."""
    found = n.emit(result)
    shaped = n.emit(make_call(Reshape, bias, [1, n.dims(bias)[0], *[1] * rank]))
    return call("relax.add", found, shaped)
