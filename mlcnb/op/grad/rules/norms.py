"""Gradients of norms: of the sample itself, and of the root of the mean of squares.

y = (x - mean) / d * gamma + beta, d = sqrt(variance + epsilon), z = (x - mean) / d, g = y' gamma

x' = (g - mean(g) - z mean(g z)) / d        gamma' = sum(y' z)        beta' = sum(y')

Of rms_norm, whose mean is 0: x' = (g - z mean(g z)) / d. Half precision is computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.op._accumulate import accumulator
from mlcnb.op.grad.rules.registry import dims_of, number, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Var
from mlcnb.relax.operator import attrs_of


class _Norm:
    """What is normalised, seen so that the axes `over` are averaged, in float32 at least."""

    def __init__(self, call: Call, grad: Any, builder: Any, axes: Sequence[int]) -> None:
        self.call, self.builder, self.at = call, builder, attrs_of(call)
        self.dims = dims_of(call.args[0], call)
        self.axes = [a % len(self.dims) for a in axes]
        self.shape, self.over = list(self.dims), self.axes
        self.kind = call.args[0].struct_info.dtype
        self.wide = str(accumulator(self.kind))
        self.grad = self.widened(grad)

    def widened(self, x: Any) -> Any:
        """In the dtype that is computed in."""
        same = str(x.struct_info.dtype) == self.wide
        return x if same else self.builder.emit(op.astype(x, self.wide))

    def apart(self, num_groups: int, channel: int) -> None:
        """The channels of a group are averaged together too."""
        each = self.dims[channel] // num_groups
        self.shape[channel : channel + 1] = [num_groups, each]
        self.over = [channel + 1, *(a + (a > channel) for a in self.axes)]

    def line(self, weight: Any, axes: Sequence[int]) -> Any:
        """A weight of the dimensions `axes`, in an order that broadcasts with all."""
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        if order != list(range(len(axes))):
            weight = self.builder.emit(op.permute_dims(weight, axes=order))
        shape = [d if i in axes else 1 for i, d in enumerate(self.dims)]
        return self.builder.emit(op.reshape(self.widened(weight), shape))

    def of_line(self, share: Any, weight: Any, axes: Sequence[int]) -> Any:
        """What a weight gets of a share of the data's shape."""
        others = [i for i in range(len(self.dims)) if i not in axes]
        total = op.sum(share, axis=others) if others else share
        back = [sorted(axes).index(a) for a in axes]
        if back != list(range(len(axes))):
            total = op.permute_dims(total, axes=back)
        return self.rounded(total, weight)

    def rounded(self, share: Any, like: Any) -> Any:
        """In the dtype of what it goes to."""
        kind = str(like.struct_info.dtype)
        return share if kind == self.wide else op.astype(self.builder.emit(share), kind)

    def mean(self, x: Any) -> Any:
        """Over the axes, kept as 1."""
        return self.builder.emit(op.mean(x, axis=self.over, keepdims=True))

    def seen(self, x: Any) -> Any:
        """In the shape whose axes `over` are averaged."""
        same = len(self.shape) == len(self.dims)
        return x if same else self.builder.emit(op.reshape(x, self.shape))

    def whole(self, x: Any) -> Any:
        """In the shape of the data."""
        return x if len(self.shape) == len(self.dims) else op.reshape(x, self.dims)

    def standard(self, is_centred: bool) -> tuple[Any, Any]:
        """(z, 1 / d), in the shape whose axes are averaged."""
        x, emit = self.seen(self.widened(self.call.args[0])), self.builder.emit
        middle = emit(x - self.mean(x)) if is_centred else x
        spread = self.mean(middle * middle)
        epsilon: float = self.at.epsilon  # type: ignore[attr-defined]
        inverse = emit(op.divide(number(1, spread), op.sqrt(spread + number(epsilon, spread))))
        return emit(middle * inverse), inverse

    def of_data(self, given: Any, z: Any, inverse: Any, is_centred: bool) -> Any:
        """x', from what comes back for z."""
        g = self.seen(self.builder.emit(given))
        rest = g - self.mean(g) if is_centred else g
        share = (rest - z * self.mean(g * z)) * inverse
        return self.rounded(self.whole(share), self.call.args[0])


def _of_sample(norm: _Norm, weighted: Sequence[int]) -> list[Any]:
    _, gamma, beta = norm.call.args
    at: Any = norm.at
    z, inverse = norm.standard(True)
    z_whole = norm.builder.emit(norm.whole(z))
    g = norm.grad * norm.line(gamma, weighted) if at.scale else norm.grad
    of_gamma = norm.of_line(norm.grad * z_whole, gamma, weighted) if at.scale else None
    of_beta = norm.of_line(norm.grad, beta, weighted) if at.center else None
    return [norm.of_data(g, z, inverse, True), of_gamma, of_beta]


@rule("nn.layer_norm")
def _layer_norm(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    norm = _Norm(call, grad, builder, attrs_of(call).axes)  # type: ignore[attr-defined]
    return _of_sample(norm, norm.axes)


@rule("nn.instance_norm", "nn.group_norm")
def _channel_norm(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    at: Any = attrs_of(call)
    norm = _Norm(call, grad, builder, at.axes)
    channel = at.channel_axis % len(norm.dims)
    if hasattr(at, "num_groups"):
        norm.apart(at.num_groups, channel)
    return _of_sample(norm, [channel])


@rule("nn.rms_norm")
def _rms_norm(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    weight = call.args[1]
    norm = _Norm(call, grad, builder, attrs_of(call).axes)  # type: ignore[attr-defined]
    z, inverse = norm.standard(False)
    g = norm.grad * norm.line(weight, norm.axes)
    of_weight = norm.of_line(norm.grad * z, weight, norm.axes)
    return [norm.of_data(g, z, inverse, False), of_weight]
