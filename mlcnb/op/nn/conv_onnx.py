"""ONNX operators that are convolutions in disguise.

ConvInteger, QLinearConv     of quantized tensors, summed in int32
CausalConvWithState          depthwise, over the past and the present
DeformConv                   every tap lies where its offset says:

tap k of place p reads x at  p * stride - pad + k * dilation + offset[k, p]   (bilinear, 0 outside)
y = bias + sum over channels and taps of  weight * mask[k, p] * what is read
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims, tidy
from mlcnb.op._spell import Formula, call
from mlcnb.op.linear_algebra.integer import along, requantized, shifted
from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.nn.conv import Conv1d, onnx_conv, onnx_window
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.qnn import _build as build
from mlcnb.relax.expr import Constant, Expr, const
from mlcnb.relax.operator import make_call


@onnx("ConvInteger", since=10)
def onnx_conv_integer(
    n: OnnxNode, x: Expr, w: Expr, x_zero: Expr | None = None, w_zero: Expr | None = None
) -> Expr:
    """w_zero may be one an output channel."""
    point = np.zeros(1, n.dtype(x)) if x_zero is None else n.known(x_zero)
    given = build.Scale.of(np.ones(1, np.float32), point)
    weight = _weight(n, w, np.ones(1, np.float32), w_zero)
    if given is not None and weight is not None and len(n.dims(x)) == 4:
        return build.convolution(n.emit, x, given, weight, None, **onnx_window(n, x, w))
    return onnx_conv(n, shifted(n, x, x_zero), shifted(n, w, w_zero, 0))


@onnx("QLinearConv", since=10)
def onnx_qlinear_conv(
    n: OnnxNode,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
    bias: Expr | None = None,
) -> Expr:
    """w_scale and w_zero may be one an output channel; the bias is int32.

    With constant parameters the products are those of bytes (`qnn.conv2d`); else of int32.
    """
    given = build.Scale.of(n.known(x_scale), n.known(x_zero))
    result = build.Scale.of(n.known(y_scale), n.known(y_zero))
    weight = _weight(n, w, n.known(w_scale), w_zero)
    start = None if bias is None else n.known(bias)
    known = bias is None or start is not None
    if given and result and weight and known and len(n.dims(x)) == 4:
        sums = build.convolution(n.emit, x, given, weight, start, **onnx_window(n, x, w))
        return build.requantize(sums, build.scales_of(given, weight, result), result, 2)
    total = n.emit(onnx_conv(n, shifted(n, x, x_zero), shifted(n, w, w_zero, 0), bias))
    scales = [x_scale, along(n, w_scale, 1, len(n.dims(x)))]
    return requantized(n, total, scales, y_scale, y_zero)


def _weight(n: OnnxNode, w: Expr, scale: Any, zero: Expr | None) -> build.Weight | None:
    point = None if zero is None else n.known(zero)
    return None if zero is not None and point is None else build.Weight.of(n.known(w), scale, point)


@onnx("CausalConvWithState", since=27)
def onnx_causal_conv(
    n: OnnxNode, x: Expr, w: Expr, bias: Expr | None = None, past: Expr | None = None
) -> Any:
    """Depthwise over the past (zeros where not given) and x; the last k - 1 places go out too."""
    dims, size = n.dims(x), n.dims(w)[-1]
    if len(dims) != 3:
        n.refuse(f"a causal convolution of {tell_dims(dims)} with {tell_dims(n.dims(w))}")
    channels = dims[1]
    if past is None:
        before = [(0, 0), (0, 0), (tidy(size - 1), 0)]
        whole = n.emit(filled_around(n, x, before, 0.0))
    else:
        whole = n.emit(call("relax.concat", [past, x], axis=2))
    result = _depthwise(n, whole, w, tidy(n.dims(whole)[2] - (size - 1)))
    if bias is not None:
        shaped = n.emit(call("relax.reshape", bias, [1, channels, 1]))
        result = n.emit(call("relax.add", result, shaped))
    mode = n.attr("activation", "none")
    if mode in ("silu", "swish"):
        result = n.emit(call("relax.nn.silu", result))
    elif mode != "none":
        n.refuse(f"activation {mode!r} is none of none, silu, swish")
    length = n.dims(whole)[2]
    begin = tidy(length - (size - 1))
    state = call("relax.strided_slice", whole, [2], [begin], [length], assume_inbound=True)
    return (result, n.emit(state)) if n.num_outputs > 1 else result


def _depthwise(n: OnnxNode, x: Expr, w: Expr, length: Any) -> Expr:
    """`length` places of (N, C, …) under (C, 1, k): of an open number of channels, which are no
    groups of a convolution, as a sum of products of what each place sees.
    """
    channels, size = n.dims(x)[1], n.dims(w)[-1]
    groups = as_int(channels)
    if groups is not None:
        return n.emit(make_call(Conv1d, x, w, groups=groups))
    f = Formula(n)
    rows, taps = (f.arange(0, d, 1, dtype="int64") for d in (length, size))
    places = f.add(f.reshape(rows, [length, 1]), taps)
    seen = f.take(x, places, axis=2, mode="fast")
    return f.sum(f.multiply(seen, f.reshape(w, [channels, 1, size])), axis=(-1,))


@onnx("DeformConv", since=19)
def onnx_deform_conv(
    n: OnnxNode,
    x: Expr,
    w: Expr,
    offset: Expr,
    bias: Expr | None = None,
    mask: Expr | None = None,
) -> Expr:
    """As samples of x (`image.grid_sample`), and a product over channels and taps.

    Semantics: https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    f, kind = Formula(n), n.dtype(x)
    batch, *rest = n.dims(x)
    known = [as_int(d) for d in (*rest, *n.dims(w), *n.dims(offset)[1:])]
    if len(known) != 10 or None in known:
        n.refuse(f"x is {tell_dims(n.dims(x))}: two dimensions of known length are there")
    channels, height, width, outer, inner, kh, kw, told, rows, columns = map(int, known)  # type: ignore[arg-type]
    taps, groups, parts = kh * kw, n.attr("group", 1), n.attr("offset_group", 1)
    fits = told == parts * taps * 2 and channels % parts == 0
    if not fits or inner * groups != channels or outer % groups:
        n.refuse(
            f"{channels} channels, {parts} groups of {told} offsets and a kernel "
            f"{tell_dims(n.dims(w))} do not fit"
        )
    places = f.add(
        f.reshape(offset, [-1, taps, 2, rows, columns]), _places(n, kind, (rows, columns), (kh, kw))
    )
    image = f.reshape(x, [-1, channels // parts, height, width])
    if min(height, width) < 2:  # the distance between the first and the last element is the unit
        image = f.nn("pad", image, pad_width=[0, 0, 0, 0, 0, 1, 0, 1])
        height, width = height + 1, width + 1
    unit = const((np.array([height, width]) - 1).astype(kind).reshape(2, 1, 1) / 2)
    grid = f.subtract(f.divide(places, unit), const(np.array(1, kind)))
    grid = f.permute_dims(f.flip(grid, axis=2), axes=(0, 2, 1, 3, 4))
    lines = f.reshape(grid, [-1, 2, taps * rows, columns])
    read = getattr(f, "image.grid_sample")(image, lines, align_corners=True)
    if mask is not None:
        shape = [-1, channels // parts, taps, rows, columns]
        held = f.reshape(mask, [-1, 1, taps, rows, columns])
        read = f.multiply(f.reshape(read, shape), held)
    columns_of = f.reshape(read, [batch, groups, inner * taps, rows * columns])
    weight = f.reshape(w, [groups, outer // groups, inner * taps])
    made = f.reshape(f.matmul(weight, columns_of), [batch, outer, rows, columns])
    return made if bias is None else f.add(made, f.reshape(bias, [outer, 1, 1]))


def _places(n: OnnxNode, kind: str, out: tuple[int, int], kernel: tuple[int, int]) -> Constant:
    """Where each tap lies without an offset: (taps, 2, rows, columns), row before column."""
    pads, strides = n.attr("pads", (0,) * 4), n.attr("strides", (1, 1))
    dilations = n.attr("dilations", (1, 1))
    axes = [
        np.arange(count) * stride - pad
        for count, stride, pad in zip(out, strides, pads[:2], strict=True)
    ]
    steps = [np.arange(k) * d for k, d in zip(kernel, dilations, strict=True)]
    at = np.stack(np.meshgrid(*axes, indexing="ij"))
    tap = np.stack(np.meshgrid(*steps, indexing="ij")).reshape(2, -1).T
    return const((tap[:, :, None, None] + at).astype(kind))
