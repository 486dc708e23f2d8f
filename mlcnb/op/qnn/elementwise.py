"""Between the integers: qnn.requantize, qnn.add.

    requantize   y = saturate(round(acc * scale) + zero_point)           acc int32, y 8 bits
    add          y = saturate(round(a * a_scale + (b * b_scale + offset)))

Both round halves to even and clamp before they round, which comes to the same. `scale` is what one
step of the accumulator is worth in steps of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Call, PrimExpr
from mlcnb.op._dims import (
    broadcast,
    broadcast_dims,
    broadcast_index,
    differ,
    refuse,
    size,
    tell,
    tensor,
)
from mlcnb.op.quantize import ends
from mlcnb.relax.operator import OpDecl, Tensor, operator

BYTES = ("int8", "uint8")


@operator("relax.qnn.requantize")
class Requantize(OpDecl):
    """saturate(round(data * scale) + zero_point), in the dtype of `zero_point`.

    data int32; scale float32, broadcast to data; zero_point one number, int8 or uint8. The product
    is rounded to float32 first, then to a whole number, halves to even. A NaN gives zero_point.
    Semantics: https://onnx.ai/onnx/operators/onnx__QLinearConv.html
    """

    cost = 2
    elementwise = finite = True

    data: Tensor
    scale: Tensor
    zero_point: Tensor

    def infer(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """data's shape in the dtype of the zero point."""
        want_kind(self, data=(data, ("int32",)), scale=(scale, ("float32",)))
        want_kind(self, zero_point=(zero_point, BYTES))
        want_scalar(self, zero_point=zero_point)
        dims = broadcast(self, data, scale)
        if dims is not None and len(dims) != data.ndim:
            refuse(self, f"scale is {tell(scale)}, which does not fit {tell(data)}")
        for found, wanted in zip(dims or (), data.dims or (), strict=True):
            if differ(found, wanted):
                refuse(self, f"scale is {tell(scale)}, which does not fit {tell(data)}")
        return tensor(data.dims, zero_point.dtype, data.ndim)

    def numpy(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """As the formula says"""
        with np.errstate(all="ignore"):
            wide = data.astype(np.float32) * scale
        low, high = ends(dtype(zero_point.dtype.name))
        zero = np.float32(zero_point)
        whole = np.nan_to_num(np.rint(np.clip(wide, low - zero, high - zero)))
        return (whole.astype(np.int32) + np.int32(zero_point)).astype(zero_point.dtype)

    def compute(self, data: Any, scale: Any, zero_point: Any) -> Any:
        """One loop nest."""
        kind = dtype(zero_point.dtype)

        def element(*index: Any) -> Any:
            at = broadcast_index(index, scale.shape, data.shape)
            wide = p.cast("float32", data(*index)) * scale(*at)
            zero = p.cast("float32", zero_point())
            low, high = (p.const(end, "float32") for end in ends(kind))
            whole = te.round(p.minimum(p.maximum(wide, low - zero), high - zero))
            return p.cast(kind, p.cast("int32", whole) + p.cast("int32", zero_point()))

        return te.compute(data.shape, element, name="requantize")


@operator("relax.qnn.add")
class QuantizedAdd(OpDecl):
    """saturate(round(a * a_scale + (b * b_scale + offset))), each product and sum rounded once.

    a, b of one dtype, int8 or uint8, broadcast; a_scale, b_scale, offset one float32 each: the
    scales in steps of the result, and the zero points' share: c_zero - a_zero * a_scale - ….
    Semantics: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    (com.microsoft.QLinearAdd).
    """

    elementwise = finite = True

    a: Tensor
    b: Tensor
    a_scale: Tensor
    b_scale: Tensor
    offset: Tensor

    def infer(self, a: Any, b: Any, a_scale: Any, b_scale: Any, offset: Any) -> Any:
        """Both shapes broadcast."""
        want_kind(self, a=(a, BYTES), b=(b, BYTES))
        if a.dtype and b.dtype and a.dtype != b.dtype:
            refuse(self, f"a is {tell(a)} and b is {tell(b)}, which must have one dtype")
        floats = {"a_scale": a_scale, "b_scale": b_scale, "offset": offset}
        want_kind(self, **{name: (info, ("float32",)) for name, info in floats.items()})
        want_scalar(self, **floats)
        known = -1 not in (a.ndim, b.ndim)
        return tensor(broadcast(self, a, b), a.dtype or b.dtype, max(a.ndim, b.ndim) * known or -1)

    def numpy(self, a: Any, b: Any, a_scale: Any, b_scale: Any, offset: Any) -> Any:
        """In float64, where each product is exact, rounded to float32 as a multiply-add does"""
        inner = (b * np.float64(b_scale) + np.float64(offset)).astype(np.float32)
        wide = (a * np.float64(a_scale) + inner.astype(np.float64)).astype(np.float32)
        low, high = ends(dtype(a.dtype.name))
        return np.nan_to_num(np.rint(np.clip(wide, low, high))).astype(np.int32).astype(a.dtype)

    def compute(self, a: Any, b: Any, a_scale: Any, b_scale: Any, offset: Any) -> Any:
        """One loop nest."""
        kind = dtype(a.dtype)
        low, high = (p.const(end, "float32") for end in ends(kind))
        shape = broadcast_dims([list(a.shape), list(b.shape)]) or ()

        def element(*index: Any) -> PrimExpr:
            places = (broadcast_index(index, x.shape, shape) for x in (a, b))
            one, two = (p.cast("float32", x(*at)) for x, at in zip((a, b), places, strict=True))
            wide = _fma(one, a_scale(), _fma(two, b_scale(), offset()))
            whole = te.round(p.minimum(p.maximum(wide, low), high))
            return p.cast(kind, p.cast("int32", whole))

        return te.compute(shape, element, name="qadd")

    def flops(self, a: Any, b: Any, a_scale: Any, b_scale: Any, offset: Any) -> Any:
        """Four an element."""
        result = self.infer(a, b, a_scale, b_scale, offset)
        return None if result.dims is None else size(result) * 4


def _fma(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
    """a * b + c, rounded once."""
    return Call(dtype("float32"), "tir.fma", (a, b, c))


@operator("relax.qnn.unsigned")
class Unsigned(OpDecl):
    """int8 as uint8, 128 added to each value.

    Where an instruction wants unsigned data; the zero point moves by 128 too.
    """

    cost = 1

    x: Tensor

    def infer(self, x: Any) -> Any:
        """x's shape in uint8."""
        want_kind(self, x=(x, ("int8",)))
        return tensor(x.dims, "uint8", x.ndim)

    def numpy(self, x: Any) -> Any:
        """x + 128"""
        return (x.astype(np.int16) + 128).astype(np.uint8)

    def compute(self, x: Any) -> Any:
        """One addition, which wraps around."""

        def element(*index: Any) -> Any:
            return p.cast("uint8", x(*index)) + p.const(128, "uint8")

        return te.compute(x.shape, element, name="unsigned")


def want_kind(op: OpDecl, **infos: Any) -> None:
    """Refuse tensors whose dtype is known and not one of those given with them."""
    for name, (info, kinds) in infos.items():
        if info.dtype and str(info.dtype) not in kinds:
            refuse(op, f"{name} must be {' or '.join(kinds)}, but is {tell(info)}")


def want_scalar(op: OpDecl, **infos: Any) -> None:
    """Refuse tensors that are known to have dimensions."""
    for name, info in infos.items():
        if info.ndim not in (-1, 0):
            refuse(op, f"{name} must be one number, but is {tell(info)}")
