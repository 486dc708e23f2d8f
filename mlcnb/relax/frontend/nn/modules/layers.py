"""Linear and Embedding, activations and other modules without parameters, normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.relax.frontend.nn import op
from mlcnb.relax.frontend.nn.module import Module
from mlcnb.relax.frontend.nn.tensor import Parameter, Tensor, reshape


class Linear(Module):
    """x @ weight^T + bias.

    Args:
        in_features: length of x's last dimension (an int, a size, a name).
        out_features: length of the result's.
        bias: whether there is one.
        dtype: of the weight; the default dtype if None.
        out_dtype: of the sums, the bias and the result; `dtype` if None.
    """

    def __init__(
        self,
        in_features: Any,
        out_features: Any,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) -> (…, out_features)."""
        made = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return made if self.bias is None else op.add(made, self.bias)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the weight, and of the bias unless `out_dtype` says it."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)


class Embedding(Module):
    """A row of the weight for each index.

    Args:
        num: rows; dim: length of a row (ints, sizes, names).
        dtype: of the weight; the default dtype if None.
    """

    def __init__(self, num: Any, dim: Any, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Indices of shape (…) -> (…, dim)."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, reshape(x, [-1]), axis=0)
        return reshape(rows, [*x.shape, self.weight.shape[1]])


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.relu(x)


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.silu(x)


class GELU(Module):
    """x * Phi(x)."""

    def __init__(self, approximate: str | None = None) -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.gelu(x, self.approximate)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.sigmoid(x)


class Softmax(Module):
    """exp(x) over its sum along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        return op.softmax(x, self.axis)


class Dropout(Module):
    """Nothing: what is exported is for inference. `rate` is kept for who reads the model."""

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return op.dropout(x, self.rate)


class Identity(Module):
    """Nothing, in a place where a module is wanted."""

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


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


class BatchNorm(Module):
    """By the running mean and variance of each channel of x (N, C, …), of any dimensions from two.

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


#: by the names that torch has for each number of dimensions
BatchNorm1D = BatchNorm2D = BatchNorm3D = BatchNorm
