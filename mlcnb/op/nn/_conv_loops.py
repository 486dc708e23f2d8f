"""The loop nest of a convolution in any layout, grouped or not, blocked or not."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import as_int, cast, const
from mlcnb.op import _layout
from mlcnb.op._dims import same
from mlcnb.op._layout import Place
from mlcnb.op.manipulate.pad import element_of_padded, pad_constant

#: what TVM calls the axes: plain layouts, and blocked ones
PLAIN = {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"}
BLOCKED = {"N": "n", "C": "oc_chunk", "D": "od", "H": "oh", "W": "ow", "c": "oc_block"}

#: padded elements for each place that windows look at, from which on they are not stored
SPARSE = 64


class Channels(NamedTuple):
    """The reduction over input channels: its axes, and what they mean to data and weight."""

    outer: Any
    inner: Any
    #: from an output channel (a Place in the data's blocks, or its index) to the data's channel
    data: Any
    weight: Place


def conv_loops(conv: Any, data: Any, weight: Any, kind: DType) -> Any:
    """te tensor of the convolution that `conv` (a declaration with its attributes) describes."""
    sizes = _layout.sizes_of(conv.data_layout, data.shape)
    kernel = _layout.sizes_of(conv.kernel_layout, weight.shape)
    places = conv.places(sizes, kernel)
    looks = [as_int(x[c]) for c in conv.spatial for x in (places, kernel)]
    used = None if None in looks else math.prod(n or 0 for n in looks)
    zero = const(0, data.dtype)
    padded = pad_spatial(data, conv.data_layout, conv.spatial, conv.padding, zero, used)
    is_stored = isinstance(padded, te.Tensor)  # else its places may be beyond int32
    windows = _window_axes(conv, kernel)
    channels = _channel_axes(conv, kernel, sizes["C"])
    shape = _layout.shape_in(conv.out_layout, {"N": sizes["N"], "C": kernel["O"], **places})

    def element(*index: Any) -> Any:
        out = _layout.places(conv.out_layout, index)
        there, here = {"N": out["N"]}, {}
        for c, stride, dilation in zip(conv.spatial, conv.strides, conv.dilation, strict=True):
            at, step = (x if is_stored else cast("int64", x) for x in (out[c].outer, windows[c]))
            there[c] = Place(_times(at, stride) + _times(step, dilation))
            here[c] = Place(windows[c])
        there["C"] = channels.data(out["C"])
        here["I"] = channels.weight
        here["O"] = reblock(out["C"], conv.out_layout, "C", conv.kernel_layout, "O")
        a = padded(*_layout.index_in(conv.data_layout, there))
        b = weight(*_layout.index_in(conv.kernel_layout, here))
        return te.sum(cast(kind, a) * cast(kind, b), axis=_order(conv, channels, windows))

    names = [
        (BLOCKED if _is_blocked(conv) else PLAIN)[a.letter]
        for a in _layout.axes_in(conv.out_layout)
    ]
    return te.compute(shape, element, name=block_name(conv, kernel), varargs_names=names)


def pad_spatial(
    data: Any, layout: str, spatial: str, padding: Any, value: Any, used: int | None = None
) -> Any:
    """`data` with padding around its spatial dimensions, in a block `pad_temp`; or as it is.

    used: how many places windows look at, one for each time. Where these are next to nothing of
        what would be padded (strides of 2**30), the block is not made: its elements are computed.
    """
    rank = len(spatial)
    if not any(padding):
        return data
    amount = {c: (padding[i], padding[rank + i]) for i, c in enumerate(spatial)}
    axes = [a.letter for a in _layout.axes_in(layout)]
    widths = [amount.get(a, (0, 0)) for a in axes]
    sizes = {a: as_int(d) for a, d in zip(axes, data.shape, strict=True) if a in amount}
    if used is not None and None not in sizes.values():
        whole = math.prod(int(d or 0) + sum(amount[a]) for a, d in sizes.items())
        if whole > SPARSE * used:
            return element_of_padded(data, widths, value)
    return pad_constant(data, widths, value, "pad_temp")


def _times(axis: Any, factor: int) -> Any:
    return axis if factor == 1 else axis * factor


def _is_blocked(conv: Any) -> bool:
    return _layout.block_of(conv.out_layout, "C") > 0


def is_depthwise(conv: Any, kernel: dict[str, Any]) -> bool:
    """True if each output channel reads one input channel."""
    return conv.groups > 1 and as_int(kernel["I"]) == 1


def block_name(conv: Any, kernel: dict[str, Any]) -> str:
    """conv2d_nchw, depthwise_conv2d_NCHWc, …"""
    layout = "".join(a.letter for a in _layout.axes_in(conv.out_layout))
    kind = "depthwise_" if is_depthwise(conv, kernel) else "group_" if conv.groups > 1 else ""
    return f"{kind}conv{len(conv.spatial)}d_{layout if _is_blocked(conv) else layout.lower()}"


def _window_axes(conv: Any, kernel: dict[str, Any]) -> dict[str, Any]:
    names = {c: f"k{c.lower()}" if _is_blocked(conv) else f"r{PLAIN[c][0]}" for c in conv.spatial}
    return {c: te.reduce_axis((0, kernel[c]), name=names[c]) for c in conv.spatial}


def _channel_axes(conv: Any, kernel: dict[str, Any], channels: Any) -> Channels:
    """Axes over the input channels of one group, cut in two where data and weight are cut alike."""
    ours = _layout.block_of(conv.data_layout, "C")
    theirs = _layout.block_of(conv.kernel_layout, "I")
    if is_depthwise(conv, kernel):
        # blocks that are filled up hold more channels than there are groups; an open number of
        # channels is what the groups ask for, or the call is refused
        there = channels if as_int(channels) is not None else _filled(conv.groups, ours)
        one_each = same(kernel["O"], channels) or same(kernel["O"], there)
        each = 1 if one_each else _per_group(conv, kernel)

        def own(out: Place) -> Place:
            if as_int(each) == 1:
                return reblock(out, conv.out_layout, "C", conv.data_layout, "C")
            return _layout.at(_whole(conv, out) // each, ours)

        return Channels(None, None, own, Place(0, 0 if theirs else None))
    return dense_channels(conv, kernel)


def dense_channels(conv: Any, kernel: dict[str, Any]) -> Channels:
    """As a convolution sums up all input channels of a group, directly or in Winograd's tiles."""
    ours = _layout.block_of(conv.data_layout, "C")
    theirs = _layout.block_of(conv.kernel_layout, "I")
    if ours and ours == theirs and _groups_fill_blocks(conv, kernel, ours):
        outer = te.reduce_axis((0, kernel["I"] // ours), name="ic_outer")
        inner = te.reduce_axis((0, ours), name="ic_inner")

        def blocks(out: Place) -> Place:
            if conv.groups == 1:
                return Place(outer, inner)
            group = out.outer // (_per_group(conv, kernel) // ours)
            return Place(group * (kernel["I"] // ours) + outer, inner)

        return Channels(outer, inner, blocks, Place(outer, inner))
    axis = te.reduce_axis((0, kernel["I"]), name="ic" if _is_blocked(conv) else "rc")

    def grouped(out: Place) -> Place:
        if conv.groups == 1:
            return _layout.at(axis.var, ours)
        group = _whole(conv, out) // _per_group(conv, kernel)
        return _layout.at(group * kernel["I"] + axis.var, ours)

    return Channels(axis, None, grouped, _layout.at(axis.var, theirs))


def _groups_fill_blocks(conv: Any, kernel: dict[str, Any], block: int) -> bool:
    """True if no block of channels, in or out, belongs to two groups."""
    if conv.groups == 1:
        return True
    if _layout.block_of(conv.out_layout, "C") != block:
        return False
    inner, outer = as_int(kernel["I"]), as_int(_per_group(conv, kernel))
    return inner is not None and outer is not None and inner % block == outer % block == 0


def _filled(channels: int, block: int) -> int:
    """Channels with what fills up their blocks."""
    return -(-channels // block) * block if block else channels


def _per_group(conv: Any, kernel: dict[str, Any]) -> Any:
    known = as_int(kernel["O"])
    return kernel["O"] // conv.groups if known is None else max(known // conv.groups, 1)


def _whole(conv: Any, out: Place) -> Any:
    return _layout.whole(out, _layout.block_of(conv.out_layout, "C"))


def reblock(place: Place, src: str, a: str, dst: str, b: str) -> Place:
    """A place in dimension `a` of layout `src` as one in dimension `b` of `dst`."""
    one, two = _layout.block_of(src, a), _layout.block_of(dst, b)
    return place if one == two else _layout.at(_layout.whole(place, one), two)


def _order(conv: Any, channels: Channels, windows: dict[str, Any]) -> list[Any]:
    """Channels first where they lie outside, last where they lie inside."""
    taps = [windows[c] for c in conv.spatial]
    before = [channels.outer] if channels.outer is not None else []
    after = [channels.inner] if channels.inner is not None else []
    last = _layout.axes_in(conv.data_layout)[-1].letter == "C"
    return [*taps, *before] if last else [*before, *taps, *after]
