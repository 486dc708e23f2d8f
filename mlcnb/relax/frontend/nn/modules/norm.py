"""Normalizations with their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.relax.frontend.nn import op
from mlcnb.relax.frontend.nn.module import Module
from mlcnb.relax.frontend.nn.tensor import Parameter, Tensor


class LayerNorm(Module):
    """Over the last dimension, or dimensions.

    Args:
        normalized_shape: its length, or their lengths.
        eps: added to the variance.
        elementwise_affine: whether there are weight and bias of that shape.
        dtype: of these; the default dtype if None.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        one = not isinstance(normalized_shape, list | tuple)
        shape = (normalized_shape,) if one else tuple(normalized_shape)
        self.weight = Parameter(shape, dtype) if elementwise_affine else None
        self.bias = Parameter(shape, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """By the root of the mean square over `axes`.

    Args:
        hidden_size: length of weight and bias.
        axes: an axis, or several.
        epsilon: added to the mean square.
        bias: whether one is added.
        dtype: of weight and bias; the default dtype if None.
    """

    def __init__(
        self,
        hidden_size: Any,
        axes: Any = -1,
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.axes = axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        made = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return made if self.bias is None else op.add(made, self.bias)


class GroupNorm(Module):
    """Over each group of channels by itself.

    Args:
        num_groups: how many; num_channels: of x.
        eps: added to the variance.
        affine: whether there are weight and bias for each channel.
        dtype: of these; the default dtype if None.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: Any,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(
        self, x: Tensor, channel_axis: int = 1, axes: Sequence[int] | None = None
    ) -> Tensor:
        """Same shape as x; axes as `op.group_norm` takes them."""
        options = (self.eps, channel_axis, axes)
        return op.group_norm(x, self.num_groups, self.weight, self.bias, *options)


class BatchNorm2D(Module):
    """By the running mean and variance of each channel of images (N, C, H, W).

    All four are parameters under torch's names: weight, bias, running_mean, running_var.
    """

    def __init__(self, num_features: Any, eps: float = 1e-5, dtype: str | None = None) -> None:
        self.num_features = num_features
        self.eps = eps
        self.weight = Parameter((num_features,), dtype)
        self.bias = Parameter((num_features,), dtype)
        self.running_mean = Parameter((num_features,), dtype)
        self.running_var = Parameter((num_features,), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        moments = (self.running_mean, self.running_var)
        return op.batch_norm(x, *moments, self.weight, self.bias, self.eps)
