"""Normalizations, softmax, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import ArgumentError, UnsupportedOpError
from mlcnb.relax.expr import const
from mlcnb.relax.frontend.nn.tensor import Tensor, call


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """exp(x) over its sum along an axis."""
    return call("nn.softmax", x, axis=axis, name=name)


def log_softmax(x: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """The logarithm of `softmax`."""
    return call("nn.log_softmax", x, axis=axis, name=name)


def dropout(x: Tensor, rate: float = 0.5, name: str = "dropout") -> Tensor:
    """x as it is: what is exported is for inference. (In training, elements are set to 0.)"""
    del rate, name
    return x


def layer_norm(
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions.

    normalized_shape: lengths of those dimensions (an int for one); weight and bias have that shape.

    Raises:
        ArgumentError: they are not the last lengths of x.
    """
    one = not isinstance(normalized_shape, list | tuple)
    shape = [normalized_shape] if one else list(normalized_shape)
    own = x.shape[x.ndim - len(shape) :]
    if len(own) != len(shape) or any(map(_differ, own, shape)):
        raise ArgumentError(f"nn.op.layer_norm: {x} does not end with the lengths {shape}")
    return call(
        "nn.layer_norm",
        x,
        _or_filled(weight, np.ones, shape, x.dtype),
        _or_filled(bias, np.zeros, shape, x.dtype),
        axes=list(range(-len(shape), 0)),
        epsilon=eps,
        name=name,
    )


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _or_filled(given: Tensor | None, fill: Any, shape: Sequence[Any], dtype: str) -> Any:
    """A weight, or the constant that does nothing in its place."""
    if given is not None:
        return given
    if not all(isinstance(d, int) for d in shape):
        raise ArgumentError(f"a norm over open sizes {list(shape)} needs a weight and a bias")
    return const(fill(tuple(shape)), dtype)


def rms_norm(
    x: Tensor, weight: Tensor, axes: Any = -1, epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """x / sqrt(mean(x * x) + epsilon) * weight, over axes (arXiv 1910.07467)."""
    return call("nn.rms_norm", x, weight, axes=axes, epsilon=epsilon, name=name)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Normalize each group of channels by itself (arXiv 1803.08494).

    Args:
        x: at least two dimensions.
        num_groups: groups that the channels are cut into.
        weight: factor for each channel; ones if None.
        bias: added to each channel; zeros if None.
        eps: added to the variance.
        channel_axis: where the channels are.
        axes: the other axes that are normalized over; all from 2 on if None.
        name: the variable's name.
    """
    channels = [x.shape[channel_axis]]
    return call(
        "nn.group_norm",
        x,
        _or_filled(weight, np.ones, channels, x.dtype),
        _or_filled(bias, np.zeros, channels, x.dtype),
        num_groups=num_groups,
        channel_axis=channel_axis,
        axes=list(range(2, x.ndim)) if axes is None else list(axes),
        epsilon=eps,
        name=name,
    )


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
    axis: int = 1,
    name: str = "batch_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, by the running mean and variance."""
    tensors = (x, weight, bias, running_mean, running_var)
    options = {"axis": axis, "epsilon": eps, "training": False}
    made: Any = call("nn.batch_norm", *tensors, **options, name=name)
    return made[0]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """softmax(query @ key^T * scale + attn_mask) @ value, head by head.

    Args:
        query: (batch, length, heads, size).
        key: (batch, other length, heads, size).
        value: (batch, other length, heads, any size).
        attn_mask: added to the scores: (batch, heads, length, other length), each 1 where it
            broadcasts, of the query's dtype.
        is_causal: a row sees no column after it.
        scale: 1 / sqrt(size) if None.
        name: the variable's name.

    Raises:
        UnsupportedOpError: a mask of bool.
    """
    if attn_mask is not None and attn_mask.dtype == "bool":
        raise UnsupportedOpError(
            "nn.op.scaled_dot_product_attention: a mask of bool is not supported",
            hint="op.where(mask, 0.0 * scores, -inf): numbers that are added to the scores",
        )
    causal = "TopLeft" if is_causal else None
    mask = () if attn_mask is None else (attn_mask,)
    return call(
        "nn.attention", query, key, value, *mask, scale=scale, causal_mask=causal, name=name
    )
