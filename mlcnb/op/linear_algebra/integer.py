"""ONNX products of quantized tensors: MatMulInteger, QLinearMatMul.

integer    (A - a_zero) . (B - b_zero), summed in int32
QLinear    the same, times a_scale * b_scale / y_scale, rounded to even, plus y_zero, clamped

The products are those of bytes (`qnn.matmul`), or of int32 where batches are repeated. Values are
brought to uint8 on the left and int8 on the right, which an instruction multiplies; the zero points
are taken off the sums:

sum (a - p) (b - q)  =  sum a b  -  p sum b  -  q sum (a - p)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import same
from mlcnb.op._spell import Formula, call
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.qnn import _build as build
from mlcnb.op.qnn.elementwise import BYTES
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
    """The product as one of bytes; None where it is none."""
    weight = _weight(n, b, None, b_zero)
    is_one = a_zero is None or all(as_int(d) == 1 for d in n.dims(a_zero))
    if n.dtype(a) not in BYTES or n.dtype(b) not in BYTES:
        return None
    if weight is None or weight.points is not None or not is_one:
        return _of_given(n, a, b, a_zero, b_zero)
    matrix = const(np.ascontiguousarray(weight.values.T))
    found = n.emit(call("relax.qnn.matmul", a, matrix))
    if a_zero is None:
        return found
    zero = n.emit(call("relax.astype", n.emit(call("relax.reshape", a_zero, ())), dtype="int32"))
    share = n.emit(call("relax.multiply", zero, const(-weight.bias(None, 1))))
    return call("relax.subtract", found, share)


def _of_given(
    n: OnnxNode, a: Expr, b: Expr, a_zero: Expr | None, b_zero: Expr | None
) -> Expr | None:
    """The product of two matrices, or of two batches of them, whose zero points may be given too;
    None where batches are repeated, or may be."""
    rows, columns = n.dims(a), n.dims(b)
    if len(rows) < 2 or len(columns) < 2:
        return None
    own = len(rows) == len(columns) and all(map(same, rows[:-2], columns[:-2]))
    if len(columns) > 2 and not own:
        return None
    start, end = _point(n, a_zero, -2, len(rows)), _point(n, b_zero, -1, len(columns))
    left, p = build.unsigned(n.emit, a, start)
    right, q = build.signed(n.emit, b, end)
    f = Formula(n, "int32")
    total = n.emit(call("relax.qnn.matmul", left, right))
    if p is not None:  # of b as it is: what was moved is not stored for its sum
        down = _total(f, b, -2)
        down = down if right is b else f.subtract(down, _times(f, 128, columns[-2]))
        total = f.subtract(total, f.multiply(p, down))
    if q is not None:
        across = _total(f, a, -1)
        across = across if start is None else f.subtract(across, _times(f, start, rows[-1]))
        total = f.subtract(total, f.multiply(q, across))
    return total


def _times(f: Formula, point: Any, size: Any) -> Expr:
    """A point times a size, which may be open."""
    known = as_int(size)
    return f.multiply(point, f.size_of(size, "int32") if known is None else known)


def _total(f: Formula, x: Expr, axis: int) -> Expr:
    """The sums of bytes along an axis."""
    return f.sum(f.astype(x, dtype="int32"), axis=(axis,), keepdims=True)


def _point(n: OnnxNode, zero: Expr | None, axis: int, ndim: int) -> Expr | None:
    """Zero points in int32, shaped to broadcast; None where they are zeros."""
    if zero is None:
        return None
    known = n.known(zero)
    if known is not None and known.size == 1:
        return const(known.astype(np.int32).reshape(())) if known.any() else None
    return along(n, n.emit(call("relax.astype", zero, dtype="int32")), axis, ndim)


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
    product = n.emit(onnx_matmul_integer(n, a, b, a_zero, b_zero))
    ndim = len(n.dims(product))
    scales = [along(n, a_scale, -2, ndim), along(n, b_scale, -1, ndim)]
    return requantized(n, product, scales, y_scale, y_zero)
