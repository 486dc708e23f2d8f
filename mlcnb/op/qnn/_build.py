"""Quantised operators from their parts: what ONNX's spellings and the pass IntegerOps share.

    convolution      R.qnn.requantize(R.add(R.qnn.conv2d(x, w, x_zero), bias), scale, y_zero)
                     bias  = b - x_zero * sum(w)              scale = x_scale * w_scale / y_scale

All scales and zero points but those of x's values are constants, so what is left at run time are
products of bytes, one addition and one multiplication for each result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.op._spell import call
from mlcnb.relax.expr import Constant, Expr, const

Emit = Callable[[Any], Expr]
F32 = np.float32


@dataclass(frozen=True)
class Scale:
    """A scale and a zero point, each one number."""

    scale: Any
    zero: Any

    @staticmethod
    def of(scale: np.ndarray | None, zero: np.ndarray | None) -> Scale | None:
        """From arrays of one element; None where they are not known, or not one finite number."""
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return None
        if scale.dtype != np.float32 or not np.isfinite(scale).all() or not (scale > 0).all():
            return None
        if zero.dtype not in (np.int8, np.uint8):
            return None
        return Scale(scale.reshape(())[()], zero.reshape(())[()])

    @property
    def point(self) -> Expr:
        """The zero point as a constant."""
        return const(np.array(self.zero))


@dataclass(frozen=True)
class Weight:
    """Constant weights as int8, and a scale for all or for each column.

    values: (O, …) with the sums over everything but the first dimension.
    points: what is still to be taken off them, int32, one or O: zero points of weights of which
        some would be no int8 without them; None: nothing.
    """

    values: np.ndarray
    scale: np.ndarray
    points: np.ndarray | None = None

    @staticmethod
    def of(
        values: np.ndarray | None, scale: np.ndarray | None, zero: np.ndarray | None
    ) -> Weight | None:
        """Of weights (O, …) with one scale and zero point, or one for each of O; None if unfit."""
        if values is None or scale is None or values.dtype not in (np.int8, np.uint8):
            return None
        if scale.dtype != np.float32 or not np.isfinite(scale).all() or values.ndim < 2:
            return None
        points = np.zeros(1, np.int16) if zero is None else zero.astype(np.int16).reshape(-1)
        if points.size not in (1, len(values)) or scale.size not in (1, len(values)):
            return None
        apart = values.astype(np.int16) - points.reshape(-1, *[1] * (values.ndim - 1))
        if apart.min(initial=0) < -128 or apart.max(initial=0) > 127:
            half = 128 if values.dtype == np.uint8 else 0
            moved = (values.astype(np.int16) - half).astype(np.int8)
            return Weight(moved, scale.reshape(-1), points.astype(np.int32) - half)
        return Weight(apart.astype(np.int8), scale.reshape(-1))

    def bias(self, given: np.ndarray | None, zero: Any) -> np.ndarray:
        """The bias with the share of the data's zero point, in int32."""
        sums = self.values.reshape(len(self.values), -1).astype(np.int64).sum(axis=1)
        start = 0 if given is None else given.astype(np.int64).reshape(-1)
        return (start - int(zero) * sums).astype(np.int32)


def convolution(
    emit: Emit, x: Expr, given: Scale, weight: Weight, bias: np.ndarray | None, **window: Any
) -> Expr:
    """The sums of a 2-D convolution (N, C, H, W) as int32, bias and zero points in them.

    window: strides, padding, dilation and groups, as of nn.conv2d.
    """
    share = None
    if weight.points is not None:
        seen = _seen(emit, x, given, weight.values.shape, window)
        share = emit(call("relax.multiply", seen, const(weight.points.reshape(1, -1, 1, 1))))
    found = emit(call("relax.qnn.conv2d", x, const(weight.values), given.point, **window))
    total = weight.bias(bias, given.zero).reshape(1, -1, 1, 1)
    sums = emit(call("relax.add", found, const(total)))
    return sums if share is None else emit(call("relax.subtract", sums, share))


def _seen(emit: Emit, x: Expr, given: Scale, shape: Any, window: dict[str, Any]) -> Expr:
    """The sums of all that each place's window sees, less the zero point: (N, 1, H, W), of groups
    one for each channel."""
    outer, inner, *size = shape
    zero = const(np.int32(given.zero) * np.int32(inner))
    if window["groups"] > 1:
        ones = const(np.ones(shape, np.int8))
        found = emit(call("relax.qnn.conv2d", x, ones, given.point, **window))
        return emit(call("relax.subtract", found, const(zero.data * np.int32(math.prod(size)))))
    wide = emit(call("relax.astype", x, dtype="int32"))
    total = emit(call("relax.sum", wide, axis=(1,), keepdims=True))
    total = emit(call("relax.subtract", total, zero))
    return emit(call("relax.nn.conv2d", total, const(np.ones((1, 1, *size), np.int32)), **window))


def product(emit: Emit, x: Expr, given: Scale, weight: Weight, bias: np.ndarray | None) -> Expr:
    """The sums of x (…, K) times the transposed weight (N, K) as int32."""
    matrix = np.ascontiguousarray(weight.values.T)
    found = emit(call("relax.qnn.matmul", x, const(matrix)))
    sums = emit(call("relax.add", found, const(weight.bias(bias, given.zero))))
    if weight.points is None:
        return sums
    wide = emit(call("relax.astype", x, dtype="int32"))
    seen = emit(call("relax.sum", wide, axis=(-1,), keepdims=True))
    seen = emit(call("relax.subtract", seen, const(np.int32(given.zero) * np.int32(len(matrix)))))
    share = emit(call("relax.multiply", seen, const(weight.points)))
    return emit(call("relax.subtract", sums, share))


def unsigned(emit: Emit, x: Expr, zero: Expr | None) -> tuple[Expr, Expr | None]:
    """x as uint8, and its zero points, int32 (None: zeros), moved with it."""
    if str(x.struct_info.dtype) == "uint8":  # type: ignore[union-attr]
        return x, zero
    return emit(call("relax.qnn.unsigned", x)), _moved(emit, zero, 128)


def signed(emit: Emit, x: Expr, zero: Expr | None) -> tuple[Expr, Expr | None]:
    """x as int8, and its zero points, int32 (None: zeros), moved with it; None for zeros."""
    if str(x.struct_info.dtype) == "int8":  # type: ignore[union-attr]
        return x, zero
    turned = emit(call("relax.bitwise_xor", x, const(np.array(128, np.uint8))))
    return emit(call("relax.astype", turned, dtype="int8")), _moved(emit, zero, -128)


def _moved(emit: Emit, zero: Expr | None, step: int) -> Expr | None:
    start = const(np.int32(0)) if zero is None else zero
    if isinstance(start, Constant):
        made = start.data + np.int32(step)
        return const(made) if made.any() else None
    return emit(call("relax.add", start, const(np.int32(step))))


def requantize(sums: Expr, scale: Any, result: Scale, channels: int | None = None) -> Any:
    """The call that scales sums back to bytes; `channels`: dimensions after those scales lie in."""
    values = np.asarray(scale, F32)
    shaped = values.reshape(()) if values.size == 1 else values.reshape(-1, *[1] * (channels or 0))
    if shaped.ndim and channels:
        shaped = shaped[None]
    return call("relax.qnn.requantize", sums, const(shaped), result.point)


def scales_of(given: Scale, weight: Weight, result: Scale) -> np.ndarray:
    """What a step of the sums is in steps of the result, in float32 as ONNX Runtime forms it."""
    return (given.scale * weight.scale) / result.scale


def addition(a: Expr, b: Expr, one: Scale, two: Scale, result: Scale) -> Any:
    """The call that adds quantised tensors; rounded where ONNX Runtime's kernel rounds."""
    ratio, other = one.scale / result.scale, two.scale / result.scale
    product = np.float64(ratio) * float(one.zero) + np.float64(F32(other * F32(two.zero)))
    offset = F32(result.zero) - F32(product)
    scales = [const(np.array(v, F32)) for v in (ratio, other, offset)]
    return call("relax.qnn.add", a, b, *scales)


def average(emit: Emit, x: Expr, given: Scale, result: Scale, dims: Any, axes: Any) -> Any:
    """The call that gives the mean over `axes`, kept as ones, of a quantised tensor."""
    count = math.prod(int(dims[a]) for a in axes)
    wide = emit(call("relax.astype", x, dtype="int32"))
    total = emit(call("relax.sum", wide, axis=tuple(axes), keepdims=True))
    zero = const(np.array(-int(given.zero) * count, np.int32))
    total = emit(call("relax.add", total, zero))
    return requantize(total, given.scale / (result.scale * F32(count)), result)
