"""Modules without parameters."""

from __future__ import annotations

from mlcnb.relax.frontend.nn import op
from mlcnb.relax.frontend.nn.module import Module
from mlcnb.relax.frontend.nn.tensor import Tensor


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
