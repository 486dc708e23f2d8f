"""Elementwise activations: relu, relu6, leakyrelu, prelu, gelu, gelu_tanh, silu, selu, softplus.

Each is one formula, written twice: `numpy` for what it means, `element` for the loop's body.
Half precision is computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.expr import Let, Var
from mlcnb.ir.prim_ops import cast, const, maximum, minimum
from mlcnb.op._accumulate import accumulator, in_wide
from mlcnb.op._dims import (
    axis_at,
    broadcast_index,
    refuse,
    repeats,
    tell,
)
from mlcnb.op._order import along_axis
from mlcnb.relax.operator import OpDecl, Tensor, operator

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
#: 2 sqrt(2 / pi)
GELU_SCALE = 1.5957691216057308

erfc = np.vectorize(math.erfc, otypes=[np.float64])


class Activation(OpDecl):
    """One formula for each element."""

    __slots__ = ()
    elementwise = True
    cost = 1

    x: Tensor

    def infer(self, x: Any) -> Any:
        """Like x, which must be of floats."""
        if x.dtype and not x.dtype.is_float:
            refuse(self, f"x must be of floats, but is {tell(x)}", hint="use astype on it first")
        return x

    def element(self, x: Any) -> Any:
        """The formula for one element, an expression in the accumulation dtype."""
        raise NotImplementedError

    def compute(self, x: Any) -> Any:
        """One loop."""
        kind, name = accumulator(x.dtype), self.sugar.rpartition(".")[2]

        def body(*index: Any) -> Any:
            return cast(x.dtype, self.element(cast(kind, x(*index))))

        return te.compute(x.shape, body, name=name)


@operator("relax.nn.relu")
class Relu(Activation):
    """max(x, 0), also of integers. A NaN stays NaN."""

    finite = idempotent = follows = True

    def infer(self, x: Any) -> Any:
        """Like x."""
        return x

    def clamps(self, x: Any) -> tuple[float, float]:
        """From 0 on."""
        return 0.0, math.inf

    def numpy(self, x: Any) -> Any:
        """numpy.maximum with 0"""
        return np.maximum(x, x.dtype.type(0))

    def element(self, x: Any) -> Any:
        """max(x, 0)"""
        return maximum(x, const(0, x.dtype))


@operator("relax.nn.relu6")
class Relu6(Activation):
    """min(max(x, 0), 6). Source: Krizhevsky 2010, Convolutional deep belief networks."""

    finite = idempotent = True
    cost = 2

    def infer(self, x: Any) -> Any:
        """Like x."""
        return x

    def clamps(self, x: Any) -> tuple[float, float]:
        """From 0 to 6."""
        return 0.0, 6.0

    def numpy(self, x: Any) -> Any:
        """numpy.clip to 0 … 6"""
        return np.clip(x, x.dtype.type(0), x.dtype.type(6)).astype(x.dtype, copy=False)

    def element(self, x: Any) -> Any:
        """min(max(x, 0), 6)"""
        return minimum(maximum(x, const(0, x.dtype)), const(6, x.dtype))


@operator("relax.nn.leakyrelu")
class LeakyRelu(Activation):
    """x where x > 0, else alpha * x."""

    tir_name = "leaky_relu"
    finite = True

    x: Tensor
    alpha: float = 0.01
    cost = 2

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula"""
        return np.where(x > 0, x, x * x.dtype.type(self.alpha))

    def element(self, x: Any) -> Any:
        """x > 0 ? x : alpha * x"""
        return te.Select(x > const(0, x.dtype), x, x * const(self.alpha, x.dtype))


@operator("relax.nn.gelu")
class Gelu(Activation):
    """x * Phi(x), Phi the normal distribution: 0.5 x (1 + erf(x / sqrt 2)). arXiv 1606.08415.

    Compiled, the error is some units in the last place of x, not of the result, which is far
    smaller where x is far below 0.
    """

    finite = follows = True
    cost = 5

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula as x erfc(-x / sqrt 2) / 2 in float64, which has all digits far below 0"""
        wide = x.astype(np.float64)
        return 0.5 * wide * erfc(wide / -math.sqrt(2))

    def element(self, x: Any) -> Any:
        """0.5 x (1 + erf(x / sqrt 2))"""
        half, root = const(0.5, x.dtype), const(math.sqrt(0.5), x.dtype)
        return x * (half + half * te.erf(x * root))


@operator("relax.nn.gelu_tanh")
class GeluTanh(Activation):
    """gelu, with Phi approximated: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Computed as x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is the same, and has no
    difference of numbers near 1.
    """

    finite = follows = True
    cost = 8

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula"""
        inside = x.astype(np.float64) * (1 + 0.044715 * x.astype(np.float64) ** 2)
        e = np.exp(-GELU_SCALE * np.abs(inside))
        return x * (np.where(inside < 0, e, 1) / (1 + e))

    def element(self, x: Any) -> Any:
        """The formula"""
        scale, cubic = const(GELU_SCALE, x.dtype), const(GELU_SCALE * 0.044715, x.dtype)
        return x * te.sigmoid(x * (scale + cubic * x * x))


@operator("relax.nn.silu")
class Silu(Activation):
    """x * sigmoid(x), also called swish. arXiv 1702.03118."""

    finite = follows = True
    cost = 2

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, without overflow"""
        e = np.exp(-np.abs(x))
        return x * np.where(x >= 0, 1 / (1 + e), e / (1 + e))

    def element(self, x: Any) -> Any:
        """x * sigmoid(x)"""
        return x * te.sigmoid(x)


@operator("relax.nn.selu")
class Selu(Activation):
    """scale * (x where x > 0, else alpha * (exp(x) - 1)), the constants of arXiv 1706.02515."""

    finite = follows = True
    cost = 4

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula"""
        low = SELU_ALPHA * np.expm1(np.minimum(x, 0))
        return SELU_SCALE * np.where(x > 0, x, low)

    def element(self, x: Any) -> Any:
        """The formula"""
        zero = const(0, x.dtype)
        low = const(SELU_ALPHA, x.dtype) * te.expm1(minimum(x, zero))
        return const(SELU_SCALE, x.dtype) * te.Select(x > zero, x, low)


@operator("relax.nn.softplus")
class Softplus(Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.Softplus.html
    """

    x: Tensor
    beta: float = 1.0
    threshold: float = 20.0
    cost = 5

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, without overflow"""
        scaled = x * x.dtype.type(self.beta)
        return np.where(scaled > self.threshold, x, np.logaddexp(scaled, 0) / self.beta)

    def element(self, x: Any) -> Any:
        """x's positive part plus log1p(e) / beta, e = exp(-|beta x|).

        As log(1 + e), and what was lost in 1 + e: less work than log1p, which is for all numbers.
        """
        zero, beta = const(0, x.dtype), const(self.beta, x.dtype)
        scaled = x * beta
        e, one = Var("e", x.dtype), const(1, x.dtype)
        log1p = te.log(one + e) + (e - ((one + e) - one))
        soft = maximum(scaled, zero) + Let(e, te.exp(-te.abs(scaled)), log1p)
        soft = soft if self.beta == 1 else soft / beta
        return te.Select(scaled > const(self.threshold, x.dtype), x, soft)


@operator("relax.nn.prelu")
class Prelu(OpDecl):
    """x where x > 0, else alpha * x, one alpha for each place along `axis`. arXiv 1502.01852."""

    cost = 2
    in_order = along_axis

    x: Tensor
    alpha: Tensor
    axis: int = 1

    def infer(self, x: Any, alpha: Any) -> Any:
        """Like x."""
        if alpha.ndim not in (-1, 1):
            refuse(self, f"alpha must have one dimension, but is {tell(alpha)}")
        if x.ndim == -1:
            return x
        axis = axis_at(self, self.axis, x.ndim, x)
        if x.dims is not None and alpha.dims is not None:
            if not repeats(alpha.dims[0], x.dims[axis]):
                refuse(
                    self, f"alpha is {tell(alpha)}, not one number along axis {axis} of {tell(x)}"
                )
        return x

    @in_wide
    def numpy(self, x: Any, alpha: Any) -> Any:
        """The formula"""
        line = [-1 if i == self.axis % x.ndim else 1 for i in range(x.ndim)]
        return np.where(x > 0, x, x * alpha.reshape(line))

    def compute(self, x: Any, alpha: Any) -> Any:
        """One loop."""
        axis = self.axis % len(x.shape)

        def element(*index: Any) -> Any:
            value = x(*index)
            slope = value * alpha(*broadcast_index([index[axis]], alpha.shape, [x.shape[axis]]))
            return te.Select(value > const(0, x.dtype), value, slope)

        return te.compute(x.shape, element, name="prelu")
