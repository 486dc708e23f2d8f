"""Numbers in few bits: quantize, dequantize.

    q = saturate(round(x / scale) + zero_point)          x = (q - zero_point) * scale

scale and zero_point: one number, or one for each index of dimension `axis`, or one an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.op._convert import convert
from mlcnb.op._dims import (
    as_int,
    axis_at,
    broadcast_index,
    refuse,
    repeats,
    tell,
    tensor,
)
from mlcnb.op._elementwise import ANY, FLOATS, quiet, want_kinds
from mlcnb.op._spell import Formula, call, dtype_of, place_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


class _Quantized(OpDecl):
    """Base of quantize and dequantize: how a scale lies beside the data."""

    __slots__ = ()
    cost = 2
    finite = True

    data: Tensor
    scale: Tensor
    zero_point: Tensor
    axis: int = -1
    out_dtype: str = "int8"

    def is_elementwise(self, data: Any, scale: Any, zero_point: Any) -> bool:
        """Where one scale and one zero point are for all."""
        return scale.ndim == zero_point.ndim == 0

    def infer(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """data's shape in `out_dtype`."""
        want_kinds(self, FLOATS, scale=scale)
        want_kinds(self, ANY, data=data, zero_point=zero_point)
        for name, info in (("scale", scale), ("zero_point", zero_point)):
            self.check_granularity(name, info, data)
        return tensor(data.dims, self.out_dtype, data.ndim)

    def check_granularity(self, name: str, info: Any, data: Any) -> None:
        """Refuse a scale that fits neither the whole, nor a dimension, nor each element."""
        if -1 in (info.ndim, data.ndim) or info.ndim == 0:
            return
        if info.ndim not in (1, data.ndim):
            refuse(self, f"{name} must have 0, 1 or {data.ndim} dimensions, but is {tell(info)}")
        if info.dims is None or data.dims is None:
            return
        axis = axis_at(self, self.axis, data.ndim, data)
        wanted = data.dims if info.ndim == data.ndim else data.dims[axis : axis + 1]
        for found, size_there in zip(info.dims, wanted, strict=True):
            if not repeats(found, size_there):
                refuse(self, f"{name} is {tell(info)}, which does not fit {tell(data)}")

    def beside(self, value: Any, data: Any) -> Any:
        """An array of scales as one that broadcasts to data."""
        if value.ndim != 1 or data.ndim == 1:
            return value
        shape = [1] * data.ndim
        shape[self.axis] = value.shape[0]
        return np.reshape(value, shape)

    def at(self, value: Any, index: Sequence[Any], dims: Sequence[Any]) -> PrimExpr:
        """The element of a te tensor of scales for an index of data, which has these dimensions."""
        if len(value.shape) == 0:
            return value()
        if len(value.shape) != len(index):
            index, dims = [index[self.axis]], [dims[self.axis]]
        return value(*broadcast_index(index, value.shape, dims))

    def element(self, x: Any, scale: Any, zero_point: Any) -> Any:
        """One element of the result, of expressions."""
        raise NotImplementedError

    def compute(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """One loop nest."""

        def at(*index: Any) -> Any:
            beside = (self.at(x, index, data.shape) for x in (scale, zero_point))
            return self.element(data(*index), *beside)

        return te.compute(data.shape, at, name=self.sugar)


@operator("relax.quantize")
class Quantize(_Quantized):
    """saturate(round(data / scale) + zero_point), halves to even.

    The division is made in the dtype of `scale`. 8-bit floats are not rounded to whole numbers.
    Semantics: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
    """

    def numpy(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """As the formula says"""
        one, offset = self.beside(scale, data), self.beside(zero_point, data)
        ratio = quiet(np.divide, data.astype(scale.dtype), one).astype(scale.dtype)
        wide, kind = ratio.astype(np.float64), dtype(self.out_dtype)
        if kind.is_integer:
            wide = np.rint(wide)
        low, high = ends(kind)
        return convert(np.clip(wide + offset.astype(np.float64), low, high), kind)

    def element(self, x: Any, scale: Any, zero_point: Any) -> Any:
        """As the formula says; sums in float32."""
        kind = dtype(self.out_dtype)
        ratio = p.div(p.cast(scale.dtype, x), scale)
        wide = ratio.dtype if ratio.dtype == "float64" else "float32"
        value = p.cast(wide, te.round(ratio) if kind.is_integer else ratio)
        low, high = (p.const(end, wide) for end in ends(kind))
        return p.cast(kind, p.maximum(p.minimum(value + p.cast(wide, zero_point), high), low))


def ends(kind: DType) -> tuple[float, float]:
    """The range that results are kept in."""
    if kind.is_integer:
        return float(kind.min_value), float(kind.max_value)
    return tuple(float(f(kind).value) for f in (p.min_value, p.max_value))  # type: ignore


@operator("relax.dequantize")
class Dequantize(_Quantized):
    """(data - zero_point) * scale, formed in float32.

    Semantics: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
    """

    out_dtype = "float32"

    def numpy(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """As the formula says"""
        kind = _wide(self.out_dtype).numpy
        one, offset = (self.beside(v, data).astype(kind) for v in (scale, zero_point))
        found = quiet(lambda: (data.astype(kind) - offset) * one)
        return convert(found, self.out_dtype)

    def element(self, x: Any, scale: Any, zero_point: Any) -> Any:
        """As the formula says."""
        kind = _wide(self.out_dtype)
        apart = p.cast(kind, x) - p.cast(kind, zero_point)
        return p.cast(self.out_dtype, apart * p.cast(kind, scale))


def _wide(kind: str) -> DType:
    return dtype("float64" if kind == "float64" else "float32")


# ONNX


def _granular(n: OnnxNode, value: Expr, x: Expr) -> Expr:
    """A scale as our operators take it: no dimension, one, or all of x's."""
    dims, block, axis = n.dims(value), n.attr("block_size", 0), _axis(n, x)
    if block < 0:
        n.refuse(f"block_size is {block}")
    if all(as_int(d) == 1 for d in dims):
        return n.emit(call("relax.reshape", value, ())) if dims else value
    if not block:
        return value
    extent = as_int(n.dims(x)[axis])
    if extent is None:
        n.refuse(f"blocks along axis {axis}, whose size is not known")
    value = n.emit(call("relax.repeat", value, repeats=block, axis=axis))
    if as_int(n.dims(value)[axis]) == extent:
        return value
    return n.emit(call("relax.strided_slice", value, (axis,), (0,), (extent,)))


def _axis(n: OnnxNode, x: Expr) -> int:
    """The axis of the scales; where there is one dimension only, that one."""
    dims = n.dims(x)
    return place_of(n, n.attr("axis", 1), dims) if len(dims) > 1 else 0


@onnx("QuantizeLinear")
def onnx_quantize(n: OnnxNode, x: Expr, scale: Expr, zero_point: Expr | None = None) -> Expr:
    """The dtype is that of the zero point, or `output_dtype`, or uint8."""
    given = n.dtype(zero_point) if zero_point is not None else "uint8"
    kind = dtype_of(n, "output_dtype", given)
    if zero_point is not None and kind != given:
        n.refuse(f"output_dtype is {kind}, but the zero point is {given}")
    precision = dtype_of(n, "precision", n.dtype(scale))
    if precision != n.dtype(scale):
        scale = n.emit(call("relax.astype", scale, dtype=precision))
    scale = _granular(n, scale, x)
    if kind.is_float and not n.attr("saturate", 1):
        return _unsaturated(n, x, scale, kind)
    offset = const(0, kind) if zero_point is None else _granular(n, zero_point, x)
    return make_call(Quantize, x, scale, offset, axis=_axis(n, x), out_dtype=kind)


def _unsaturated(n: OnnxNode, x: Expr, scale: Expr, kind: DType) -> Expr:
    """x / scale in an 8-bit float, where what is too large becomes infinity or NaN."""
    if len(n.dims(scale)) == 1 and len(n.dims(x)) > 1:
        after = len(n.dims(x)) - 1 - _axis(n, x)
        if after:
            axes = tuple(range(1, after + 1))
            scale = n.emit(call("relax.expand_dims", scale, axis=axes))
    if n.dtype(x) != n.dtype(scale):
        x = n.emit(call("relax.astype", x, dtype=n.dtype(scale)))
    return call("relax.astype", n.emit(call("relax.divide", x, scale)), dtype=kind)


@onnx("DequantizeLinear")
def onnx_dequantize(n: OnnxNode, x: Expr, scale: Expr, zero_point: Expr | None = None) -> Expr:
    """The dtype is `output_dtype`, or that of the scale."""
    kind = dtype_of(n, "output_dtype", n.dtype(scale))
    offset = const(0, n.dtype(x)) if zero_point is None else _granular(n, zero_point, x)
    scale = _granular(n, scale, x)
    return make_call(Dequantize, x, scale, offset, axis=_axis(n, x), out_dtype=kind)


@onnx("DynamicQuantizeLinear")
def onnx_dynamic_quantize(n: OnnxNode, x: Expr) -> tuple[Expr, Expr, Expr]:
    """uint8 with a scale and a zero point that fit the data, 0 included; all three are results."""
    f = Formula(n, "float32")
    high, low = f.maximum(f.max(x), 0.0), f.minimum(f.min(x), 0.0)
    spread = f.where(f.equal(high, low), 1.0, f.subtract(high, low))
    scale = f.divide(spread, 255.0)
    offset = f.subtract(0.0, f.divide(low, scale))
    offset = f.clip(offset, PrimValue(p.const(0.0)), PrimValue(p.const(255.0)))
    zero_point = f.astype(f.round(offset), dtype="uint8")
    found = f.quantize(x, scale, zero_point, axis=0, out_dtype="uint8")
    return found, scale, zero_point
