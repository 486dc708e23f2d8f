"""ONNX Runtime's quantised operators (domain com.microsoft), which its quantiser writes.

QLinearAdd, QLinearGlobalAveragePool, QGemm    on integers
QLinearConcat, QLinearMul, QLinearSigmoid,     through floats: dequantize, operator, quantize;
QLinearLeakyRelu, QLinearAveragePool           a tensor that keeps its scale stays as it is

Semantics: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims
from mlcnb.op._spell import call
from mlcnb.op.nn.activation_onnx import onnx_leaky_relu
from mlcnb.op.nn.pool_onnx import onnx_average_pool
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.qnn import _build as build
from mlcnb.op.quantize import onnx_dequantize, onnx_quantize
from mlcnb.relax.expr import Expr, const

MICROSOFT = "com.microsoft"


def _scale(n: OnnxNode, scale: Expr, zero: Expr | None, like: str = "uint8") -> Any:
    """A scale and zero point that are constants; None where they are not."""
    point = np.zeros(1, like) if zero is None else n.known(zero)
    return build.Scale.of(n.known(scale), point)


def _floats(n: OnnxNode, x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    return n.emit(onnx_dequantize(n, x, scale, zero))


@onnx("QLinearAdd", domain=MICROSOFT)
@onnx("QLinearMul", domain=MICROSOFT)
def onnx_qlinear_binary(
    n: OnnxNode,
    a: Expr,
    a_scale: Expr,
    a_zero: Expr | None,
    b: Expr,
    b_scale: Expr,
    b_zero: Expr | None,
    c_scale: Expr,
    c_zero: Expr | None = None,
) -> Expr:
    """Both broadcast; all of one dtype. A product goes through floats."""
    kind, is_sum = n.dtype(a), n.op_type == "QLinearAdd"
    one, two = _scale(n, a_scale, a_zero, kind), _scale(n, b_scale, b_zero, kind)
    result = _scale(n, c_scale, c_zero, kind)
    if is_sum and one and two and result:
        return build.addition(a, b, one, two, result)
    operands = _floats(n, a, a_scale, a_zero), _floats(n, b, b_scale, b_zero)
    made = n.emit(call("relax.add" if is_sum else "relax.multiply", *operands))
    return onnx_quantize(n, made, c_scale, c_zero)


@onnx("QLinearGlobalAveragePool", domain=MICROSOFT)
def onnx_qlinear_global_average_pool(
    n: OnnxNode, x: Expr, x_scale: Expr, x_zero: Expr, y_scale: Expr, y_zero: Expr
) -> Expr:
    """The mean over all spatial dimensions, kept as ones; channels first, or last."""
    dims, last = n.dims(x), bool(n.attr("channels_last", 0))
    axes = tuple(range(1, len(dims) - 1)) if last else tuple(range(2, len(dims)))
    given, result = _scale(n, x_scale, x_zero), _scale(n, y_scale, y_zero)
    if given and result and all(as_int(dims[a]) is not None for a in axes):
        return build.average(n.emit, x, given, result, dims, axes)
    mean = call("relax.mean", _floats(n, x, x_scale, x_zero), axis=axes, keepdims=True)
    return onnx_quantize(n, n.emit(mean), y_scale, y_zero)


@onnx("QLinearConcat", domain=MICROSOFT)
def onnx_qlinear_concat(n: OnnxNode, y_scale: Expr, y_zero: Expr, *parts: Expr) -> Expr:
    """Each part comes with its scale and zero point; one that has the result's is not touched."""
    if not parts or len(parts) % 3:
        n.refuse(f"{len(parts)} inputs are not tensors with a scale and a zero point each")
    result, found = _scale(n, y_scale, y_zero), []
    for x, scale, zero in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        same = result is not None and _scale(n, scale, zero) == result
        floats = None if same else _floats(n, x, scale, zero)
        found.append(x if floats is None else n.emit(onnx_quantize(n, floats, y_scale, y_zero)))
    return call("relax.concat", found, axis=n.require("axis"))


def _through_floats(op_type: str, function: Callable[[OnnxNode, Expr], Expr]) -> None:
    """A function of one tensor, for which bytes become floats and back."""

    @onnx(op_type, domain=MICROSOFT)
    def spell(
        n: OnnxNode,
        x: Expr,
        x_scale: Expr,
        x_zero: Expr | None,
        y_scale: Expr,
        y_zero: Expr | None = None,
    ) -> Expr:
        """Through floats."""
        made = n.emit(function(n, _floats(n, x, x_scale, x_zero)))
        return onnx_quantize(n, made, y_scale, y_zero)


def _average_pool(n: OnnxNode, x: Expr) -> Expr:
    """Channels first."""
    if n.attr("channels_last", 0):
        n.refuse("channels_last is not there", hint="export the model with channels first")
    return onnx_average_pool(n, x)


_through_floats("QLinearSigmoid", lambda n, x: call("relax.sigmoid", x))
_through_floats("QLinearLeakyRelu", onnx_leaky_relu)
_through_floats("QLinearAveragePool", _average_pool)


@onnx("QGemm", domain=MICROSOFT)
def onnx_qgemm(
    n: OnnxNode,
    a: Expr,
    a_scale: Expr,
    a_zero: Expr,
    b: Expr,
    b_scale: Expr,
    b_zero: Expr,
    c: Expr | None = None,
    y_scale: Expr | None = None,
    y_zero: Expr | None = None,
) -> Expr:
    """alpha * A' * B' + C, C int32 of scale alpha * a_scale * b_scale; float32 without y_scale."""
    given = build.Scale.of(n.known(a_scale), n.known(a_zero))
    matrix, bias = n.known(b), None if c is None else n.known(c)
    if given is None or matrix is None or (c is not None and bias is None):
        n.refuse("B, C, the scales and the zero points must be constants")
    columns = matrix if n.attr("transB", 0) else matrix.T
    weight = build.Weight.of(columns, n.known(b_scale), n.known(b_zero))
    if weight is None or (bias is not None and bias.size not in (1, len(weight.values))):
        n.refuse(
            f"B {tell_dims(matrix.shape)}, with its zero points, or C is of an unknown form",
            hint="quantise weights as int8 without zero points",
        )
    if n.attr("transA", 0):
        a = n.emit(call("relax.permute_dims", a, axes=(1, 0)))
    sums = build.product(n.emit, a, given, weight, bias)
    factor = np.float32(n.attr("alpha", 1.0)) * given.scale * weight.scale
    if y_scale is None:
        wide = n.emit(call("relax.astype", sums, dtype="float32"))
        return call("relax.multiply", wide, const(factor))
    result = build.Scale.of(n.known(y_scale), n.known(y_zero))
    if result is None:
        n.refuse("y_scale and y_zero_point must be constants")
    return build.requantize(sums, factor / result.scale, result)


onnx("QuantizeLinear", domain=MICROSOFT)(onnx_quantize)
onnx("DequantizeLinear", domain=MICROSOFT)(onnx_dequantize)
