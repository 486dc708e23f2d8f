"""ONNX products of integers, summed in int32: MatMulInteger, ConvInteger."""

from __future__ import annotations

from mlcnb.op._spell import call
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import make_call


def shifted(n: OnnxNode, x: Expr, zero: Expr | None, axis: int | None = None) -> Expr:
    """x - zero as int32; a zero point for each place along `axis` is shaped to broadcast."""
    wide = n.emit(call("relax.astype", x, dtype="int32"))
    if zero is None:
        return wide
    point = n.emit(call("relax.astype", zero, dtype="int32"))
    dims, ndim = n.dims(zero), len(n.dims(x))
    if len(dims) == 1 and axis is not None:
        line = [dims[0] if i == axis % ndim else 1 for i in range(ndim)]
        point = n.emit(make_call(Reshape, point, line))
    return n.emit(call("relax.subtract", wide, point))


@onnx("MatMulInteger", since=10)
def onnx_matmul_integer(
    n: OnnxNode, a: Expr, b: Expr, a_zero: Expr | None = None, b_zero: Expr | None = None
) -> Expr:
    """(A - a_zero) . (B - b_zero); a_zero may be one a row, b_zero one a column."""
    return make_call(Matmul, shifted(n, a, a_zero, -2), shifted(n, b, b_zero, -1))
