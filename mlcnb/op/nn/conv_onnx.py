"""ONNX operators that are convolutions in disguise.

ConvInteger, QLinearConv     of quantized tensors, summed in int32
CausalConvWithState          depthwise, over the past and the present
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims, tidy
from mlcnb.op._spell import call
from mlcnb.op.linear_algebra.integer import along, requantized, shifted
from mlcnb.op.nn.conv import Conv1d, onnx_conv, onnx_window
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.qnn import _build as build
from mlcnb.relax.expr import Expr
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
    dims, size = n.dims(x), as_int(n.dims(w)[-1])
    channels = as_int(dims[1])
    if len(dims) != 3 or size is None or channels is None:
        n.refuse(f"a causal convolution of {tell_dims(dims)} with {tell_dims(n.dims(w))}")
    if past is None:
        whole = n.emit(call("relax.nn.pad", x, pad_width=(0, 0, 0, 0, size - 1, 0)))
    else:
        whole = n.emit(call("relax.concat", [past, x], axis=2))
    result = n.emit(make_call(Conv1d, whole, w, groups=channels))
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
