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
from mlcnb.relax.expr import Expr, const

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
    """Constant weights as int8 without zero points, and a scale for all or for each column.

    values: (O, …) with the sums over everything but the first dimension.
    """

    values: np.ndarray
    scale: np.ndarray

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
            return None
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
    found = emit(call("relax.qnn.conv2d", x, const(weight.values), given.point, **window))
    total = weight.bias(bias, given.zero).reshape(1, -1, 1, 1)
    return emit(call("relax.add", found, const(total)))


def product(emit: Emit, x: Expr, given: Scale, weight: Weight, bias: np.ndarray | None) -> Expr:
    """The sums of x (…, K) times the transposed weight (N, K) as int32."""
    matrix = np.ascontiguousarray(weight.values.T)
    found = emit(call("relax.qnn.matmul", x, const(matrix)))
    total = weight.bias(bias, given.zero)
    return emit(call("relax.add", found, const(total)))


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
