"""ONNX products of quantized tensors: MatMulInteger, QLinearMatMul.

integer    (A - a_zero) . (B - b_zero), summed in int32
QLinear    the same, times a_scale * b_scale / y_scale, rounded to even, plus y_zero, clamped

Where B is constant the products are those of bytes (`qnn.matmul`); else of int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import call
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.qnn import _build as build
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import make_call


def along(n: OnnxNode, x: Expr, axis: int | None, ndim: int) -> Expr:
    """A scale or zero point for each place along `axis`, shaped to broadcast in `ndim`."""
    dims = n.dims(x)
    if len(dims) != 1 or axis is None:
        return x
    line = [dims[0] if i == axis % ndim else 1 for i in range(ndim)]
    return n.emit(make_call(Reshape, x, line))


def shifted(n: OnnxNode, x: Expr, zero: Expr | None, axis: int | None = None) -> Expr:
    """x - zero, in int32."""
    wide = n.emit(call("relax.astype", x, dtype="int32"))
    if zero is None:
        return wide
    point = n.emit(call("relax.astype", zero, dtype="int32"))
    return n.emit(call("relax.subtract", wide, along(n, point, axis, len(n.dims(x)))))


def requantized(n: OnnxNode, x: Expr, scales: Sequence[Expr], y_scale: Expr, y_zero: Expr) -> Expr:
    """x times the scales over y_scale, rounded to even, shifted, clamped to y_zero's dtype."""
    kind = dtype(n.dtype(y_zero))
    if not kind.is_integer:
        n.refuse(f"an output of {kind}", hint="int8 and uint8 are there")
    factor = scales[0]
    for scale in scales[1:]:
        factor = n.emit(call("relax.multiply", factor, scale))
    factor = n.emit(call("relax.astype", factor, dtype="float32"))
    divisor = n.emit(call("relax.astype", y_scale, dtype="float32"))
    wide = n.emit(call("relax.astype", x, dtype="float32"))
    scaled = n.emit(call("relax.multiply", wide, n.emit(call("relax.divide", factor, divisor))))
    rounded = n.emit(call("relax.round", scaled))
    moved = n.emit(
        call("relax.add", rounded, n.emit(call("relax.astype", y_zero, dtype="float32")))
    )
    high = n.emit(call("relax.minimum", moved, const(float(kind.max_value), "float32")))
    low = n.emit(call("relax.maximum", high, const(float(kind.min_value), "float32")))
    return call("relax.astype", low, dtype=str(kind))


def _scale(n: OnnxNode, scale: Expr, zero: Expr) -> build.Scale | None:
    return build.Scale.of(n.known(scale), n.known(zero))


def _weight(n: OnnxNode, b: Expr, scale: Any, zero: Expr | None) -> build.Weight | None:
    """A constant matrix as weights of its columns; None where it is none."""
    known = n.known(b)
    points = None if zero is None else n.known(zero)
    if known is None or known.ndim != 2 or (zero is not None and points is None):
        return None
    factors = np.ones(1, np.float32) if scale is None else n.known(scale)
    return build.Weight.of(known.T, factors, points)


def _of_bytes(
    n: OnnxNode, a: Expr, b: Expr, a_zero: Expr | None, b_zero: Expr | None
) -> Expr | None:
    """The product with a constant matrix; the zero point of A may be known at run time only."""
    weight = _weight(n, b, None, b_zero)
    if weight is None or n.dtype(a) not in ("int8", "uint8"):
        return None
    if a_zero is not None and any(as_int(d) != 1 for d in n.dims(a_zero)):
        return None
    matrix = const(np.ascontiguousarray(weight.values.T))
    found = n.emit(call("relax.qnn.matmul", a, matrix))
    if a_zero is None:
        return found
    zero = n.emit(call("relax.astype", n.emit(call("relax.reshape", a_zero, ())), dtype="int32"))
    share = n.emit(call("relax.multiply", zero, const(-weight.bias(None, 1))))
    return call("relax.subtract", found, share)


@onnx("MatMulInteger", since=10)
def onnx_matmul_integer(
    n: OnnxNode, a: Expr, b: Expr, a_zero: Expr | None = None, b_zero: Expr | None = None
) -> Expr:
    """a_zero may be one a row, b_zero one a column."""
    found = _of_bytes(n, a, b, a_zero, b_zero)
    if found is not None:
        return found
    return make_call(Matmul, shifted(n, a, a_zero, -2), shifted(n, b, b_zero, -1))


@onnx("QLinearMatMul", since=10)
def onnx_qlinear_matmul(
    n: OnnxNode,
    a: Expr,
    a_scale: Expr,
    a_zero: Expr,
    b: Expr,
    b_scale: Expr,
    b_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
) -> Expr:
    """Scales and zero points may be one a row of A, one a column of B."""
    given, result = _scale(n, a_scale, a_zero), _scale(n, y_scale, y_zero)
    weight = _weight(n, b, b_scale, b_zero)
    if given is not None and result is not None and weight is not None:
        sums = build.product(n.emit, a, given, weight, None)
        return build.requantize(sums, build.scales_of(given, weight, result), result)
    product = n.emit(make_call(Matmul, shifted(n, a, a_zero, -2), shifted(n, b, b_zero, -1)))
    ndim = len(n.dims(product))
    scales = [along(n, a_scale, -2, ndim), along(n, b_scale, -1, ndim)]
    return requantized(n, product, scales, y_scale, y_zero)
