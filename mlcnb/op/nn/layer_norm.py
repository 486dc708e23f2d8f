"""Normalisation by the statistics of the sample itself: nn.layer_norm, group_norm, instance_norm,
rms_norm.

    out = (x - mean) / sqrt(variance + epsilon) * gamma + beta
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.ir.rules import rule
from mlcnb.op._accumulate import accumulator, in_wide
from mlcnb.op._dims import axes_at, axis_at, product, refuse, tell, unfit
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._order import along_axes
from mlcnb.op.nn._moments import (
    View,
    in_groups,
    inverse_root,
    moments,
    normalised,
    over_axes,
    total,
)
from mlcnb.op.nn._window import settle
from mlcnb.relax import op
from mlcnb.relax.expr import Call
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.relax.struct_info import TensorStructInfo


class SampleNorm(OpDecl):
    """What layer, group and instance normalisation have in common: what is averaged together and
    which axes the weights have is said by each.
    """

    __slots__ = ()
    cost = 8
    in_order = along_axes
    follows = True

    data: Tensor
    gamma: Tensor
    beta: Tensor
    axes: tuple[int, ...] = (-1,)
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def __post_init__(self) -> None:
        given: Any = self.axes
        axes = (given,) if isinstance(given, int) else tuple(given)
        settle(self, axes=axes, center=bool(self.center), scale=bool(self.scale))

    def weighted(self, ndim: int) -> list[int]:
        """The axes of gamma and beta."""
        raise NotImplementedError

    def averaged(self, data: Any) -> View:
        """What of a te tensor is averaged together."""
        return over_axes(data, [a % len(data.shape) for a in self.axes])

    def standard(self, x: np.ndarray) -> np.ndarray:
        """(x - mean) / sqrt(variance + epsilon)"""
        return _standard(x, tuple(a % x.ndim for a in self.axes), self.epsilon)

    @in_wide
    def numpy(self, data: Any, gamma: Any, beta: Any) -> Any:
        """The formula, in float32 at least"""
        axes = self.weighted(data.ndim)
        return self.affine(self.standard(data), *(_line(w, axes, data.ndim) for w in (gamma, beta)))

    def compute(self, data: Any, gamma: Any, beta: Any) -> Any:
        """Mean, inverse deviation, then one elementwise loop."""
        axes, kind = self.weighted(len(data.shape)), accumulator(data.dtype)
        name, view = self.op_name.rpartition(".")[2], self.averaged(data)
        m = moments(view, kind, self.epsilon, name)

        def element(*index: Any) -> Any:
            at = [index[a] for a in axes]
            weights = (cast(kind, w(*at)) for w in (gamma, beta))
            value = self.affine(normalised(data, view, index, m), *weights)
            return cast(data.dtype, value)

        return te.compute(data.shape, element, name=name)

    def affine(self, value: Any, gamma: Any, beta: Any) -> Any:
        """value * gamma + beta, as far as `scale` and `center` say."""
        value = value * gamma if self.scale else value
        return value + beta if self.center else value

    def check_weights(self, data: Any, axes: Sequence[int], gamma: Any, beta: Any) -> None:
        """Refuse weights that are not of data's dimensions `axes`, and what are no floats."""
        want_kinds(self, FLOATS, data=data, gamma=gamma, beta=beta)
        for name, info in (("gamma", gamma), ("beta", beta)):
            _want_axes(self, data, axes, name, info)


def _want_axes(op: OpDecl, data: Any, axes: Sequence[int], name: str, info: Any) -> None:
    """Refuse a weight that is not of data's dimensions `axes`."""
    if data.dims is not None and unfit([data.dims[a] for a in axes], info.dims):
        refuse(op, f"{name} is {tell(info)}, not of the axes {tuple(axes)} of {tell(data)}")


def _line(weights: np.ndarray, axes: Sequence[int], ndim: int) -> np.ndarray:
    """Weights of the dimensions `axes`, shaped to broadcast with all `ndim`."""
    order = np.argsort(axes)
    moved = weights.transpose(order)
    sizes = {axes[o]: moved.shape[i] for i, o in enumerate(order)}
    return moved.reshape([sizes.get(i, 1) for i in range(ndim)])


def _standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    """In float64: the mean of numbers near a large one is not a float32."""
    x = x.astype(np.float64)
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@operator("relax.nn.layer_norm")
class LayerNorm(SampleNorm):
    """Normalises over `axes`; gamma and beta have the shape of those. arXiv 1607.06450.

    Float16 and bfloat16 are computed in float32.
    """

    @rule("DecomposeOpsForTraining", "layer_norm")
    def for_training(self, call: Call, emit: Any) -> Any:
        """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over the last axes."""
        data, gamma, beta = call.args
        info = data.struct_info
        if not isinstance(info, TensorStructInfo) or info.ndim < 1 or info.dtype is None:
            return None
        axes = tuple(a % info.ndim for a in self.axes)
        if axes != tuple(range(info.ndim - len(axes), info.ndim)):
            return None
        middle = emit(op.subtract(data, op.mean(data, axis=axes, keepdims=True)))
        variance = op.variance(data, axis=axes, keepdims=True)
        deviation = op.sqrt(op.add(variance, constant(self.epsilon, info.dtype)))
        result = op.divide(middle, deviation)
        result = op.multiply(result, gamma) if self.scale else result
        return op.add(result, beta) if self.center else result

    def infer(self, data: Any, gamma: Any, beta: Any) -> Any:
        """Like data."""
        if data.ndim != -1:
            self.check_weights(data, axes_at(self, self.axes, data.ndim, data), gamma, beta)
        return data

    def weighted(self, ndim: int) -> list[int]:
        """Those that are averaged over."""
        return [a % ndim for a in self.axes]


class ChannelNorm(SampleNorm):
    """What group and instance normalisation have in common: one number of a weight a channel."""

    __slots__ = ()

    data: Tensor
    gamma: Tensor
    beta: Tensor
    channel_axis: int = 1
    axes: tuple[int, ...] = (2, 3)
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def weighted(self, ndim: int) -> list[int]:
        """The channels'."""
        return [self.channel_axis % ndim]

    def infer(self, data: Any, gamma: Any, beta: Any) -> Any:
        """Like data."""
        if data.ndim != -1:
            channel = axis_at(self, self.channel_axis, data.ndim, data)
            if channel in axes_at(self, self.axes, data.ndim, data):
                refuse(self, f"axes {self.axes} hold the channels' axis {channel} too")
            self.check_weights(data, [channel], gamma, beta)
        return data


@operator("relax.nn.group_norm")
class GroupNorm(ChannelNorm):
    """Normalises over `axes` and the channels of each of `num_groups` groups. arXiv 1803.08494.

    gamma and beta: one number a channel.
    """

    data: Tensor
    gamma: Tensor
    beta: Tensor
    num_groups: int
    channel_axis: int = 1
    axes: tuple[int, ...] = (2, 3)
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def infer(self, data: Any, gamma: Any, beta: Any) -> Any:
        """Like data."""
        ChannelNorm.infer(self, data, gamma, beta)
        count = None if data.dims is None else as_int(data.dims[self.channel_axis % data.ndim])
        if self.num_groups < 1 or (count is not None and count % self.num_groups):
            refuse(self, f"the channels of {tell(data)} do not go into {self.num_groups} groups")
        return data

    def averaged(self, data: Any) -> View:
        """The axes and the channels of a group."""
        ndim = len(data.shape)
        axes = [a % ndim for a in self.axes]
        return in_groups(data, self.channel_axis % ndim, self.num_groups, axes)

    def standard(self, x: np.ndarray) -> np.ndarray:
        """With the groups as a dimension of their own"""
        channel, shape = self.channel_axis % x.ndim, x.shape
        each = shape[channel] // self.num_groups
        apart = x.reshape(*shape[:channel], self.num_groups, each, *shape[channel + 1 :])
        axes = [a % x.ndim for a in self.axes]
        places = (channel + 1, *(a + (a > channel) for a in axes))
        return _standard(apart, places, self.epsilon).reshape(shape)


@operator("relax.nn.instance_norm")
class InstanceNorm(ChannelNorm):
    """Normalises over `axes` for each sample and channel. arXiv 1607.08022.

    gamma and beta: one number a channel.
    """


@operator("relax.nn.rms_norm")
class RmsNorm(OpDecl):
    """x / sqrt(mean(x ** 2 over `axes`) + epsilon) * weight, which has the shape of the axes.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467.
    """

    cost = 5
    follows = True
    in_order = along_axes

    data: Tensor
    weight: Tensor
    axes: tuple[int, ...] = (-1,)
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        given: Any = self.axes
        settle(self, axes=(given,) if isinstance(given, int) else tuple(given))

    def infer(self, data: Any, weight: Any) -> Any:
        """Like data."""
        if data.ndim == -1:
            return data
        axes = axes_at(self, self.axes, data.ndim, data)
        _want_axes(self, data, axes, "weight", weight)
        return data

    @in_wide
    def numpy(self, data: Any, weight: Any) -> Any:
        """The formula, in float32 at least"""
        axes = tuple(a % data.ndim for a in self.axes)
        mean = np.square(data).mean(axes, keepdims=True)
        return data / np.sqrt(mean + data.dtype.type(self.epsilon)) * _line(weight, axes, data.ndim)

    def compute(self, data: Any, weight: Any) -> Any:
        """A sum of squares, then one elementwise loop."""
        axes, kind = [a % len(data.shape) for a in self.axes], accumulator(data.dtype)
        view = over_axes(data, axes)
        squares = total(view, lambda _, v: cast(kind, v) * cast(kind, v), "rms_norm_squares")
        count = cast(kind, product(view.reduced))

        def mean_square(*kept: Any) -> Any:
            return squares(*kept) / count

        inverse = inverse_root(view, mean_square, kind, self.epsilon, "rms_norm")

        def element(*index: Any) -> Any:
            value = cast(kind, data(*index)) * inverse(*view.home(index))
            return cast(data.dtype, value * cast(kind, weight(*(index[a] for a in axes))))

        return te.compute(data.shape, element, name="rms_norm")
