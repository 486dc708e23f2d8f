"""Linear and Embedding."""

from __future__ import annotations

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
