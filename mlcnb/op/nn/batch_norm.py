"""nn.batch_norm: each channel shifted and scaled.

    out = (x - mean) / sqrt(variance + epsilon) * gamma + beta

mean and variance are the moving ones, or with `training` those of the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import cast, const
from mlcnb.ir.rules import rule
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import axis_at, differ, refuse, size, tell, want_rank
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._order import along_axis
from mlcnb.op.nn._moments import over_axes, spread_over
from mlcnb.op.nn._window import settle
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Expr, Tuple, TupleGetItem
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.relax.traits import Order


@operator("relax.nn.batch_norm")
class BatchNorm(OpDecl):
    """Normalises along `axis` (the channels); a tuple: result, moving mean, moving variance.

    gamma, beta, moving_mean, moving_var: one number a channel. center: add beta; scale: multiply by
    gamma. training: normalise with the mean and (biased) variance of this batch, and return the
    moving ones moved by `momentum` towards them. Source: Ioffe and Szegedy 2015, arXiv 1502.03167.
    """

    data: Tensor
    gamma: Tensor
    beta: Tensor
    moving_mean: Tensor
    moving_var: Tensor
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    momentum: float = 0.1
    training: bool = True

    def __post_init__(self) -> None:
        settle(self, **{n: bool(getattr(self, n)) for n in ("center", "scale", "training")})

    @rule("DecomposeOpsForInference", "batch_norm")
    def for_inference(self, call: Call, emit: Any) -> Any:
        """x * s + b, where s and b have one number for each channel: by the moving statistics."""
        data, gamma, beta, mean, var = call.args
        info, stats = data.struct_info, var.struct_info
        known = isinstance(info, TensorStructInfo) and info.ndim > 0 and info.dtype is not None
        if not known or stats.dims is None or stats.dtype != info.dtype:
            return None
        deviation = op.sqrt(op.add(var, constant(self.epsilon, info.dtype)))
        scale = emit(op.divide(gamma if self.scale else constant(1.0, info.dtype), deviation))
        moved = op.multiply(mean, scale)
        shift = op.subtract(beta, moved) if self.center else op.negative(moved)
        shape = [stats.dims[0] if i == self.axis % info.ndim else 1 for i in range(info.ndim)]
        scaled = op.multiply(data, op.reshape(scale, shape))
        result = emit(op.add(scaled, op.reshape(shift, shape)))
        return Tuple((result, mean, var))

    @rule("DecomposeOpsForTraining", "batch_norm_training")
    def for_training(self, call: Call, emit: Any) -> Any:
        """The batch's own mean and variance, and the moving ones moved towards them."""
        if not self.training:
            return self.for_inference(call, emit)
        data, gamma, beta, mean, var = call.args
        info = data.struct_info
        if not isinstance(info, TensorStructInfo) or info.ndim < 1 or info.dtype is None:
            return None
        others = tuple(i for i in range(info.ndim) if i != self.axis % info.ndim)
        own_mean = emit(op.mean(data, axis=others))
        own_var = emit(op.variance(data, axis=others))
        middle = op.subtract(data, op.expand_dims(own_mean, axis=others))
        epsilon = constant(self.epsilon, info.dtype)
        spread = op.add(op.expand_dims(own_var, axis=others), epsilon)
        result = op.divide(middle, op.sqrt(spread))
        if self.scale:
            result = op.multiply(result, op.expand_dims(gamma, axis=others))
        if self.center:
            result = op.add(result, op.expand_dims(beta, axis=others))
        made = emit(result)
        pairs = ((mean, own_mean), (var, own_var))
        return Tuple((made, *(emit(self.moved_on(old, new)) for old, new in pairs)))

    def moved_on(self, old: Any, new: Any) -> Call:
        """The moving statistic after this batch, as operators."""
        kind = old.struct_info.dtype
        kept = op.multiply(constant(1 - self.momentum, kind), old)
        return op.add(kept, op.multiply(constant(self.momentum, kind), new))

    def in_order(self, order: Order) -> Any:
        """Along `axis`; the statistics have one dimension."""
        found = along_axis(self, order)
        return None if found is None else (found[0], [order, None, None])

    def infer(self, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any) -> Any:
        """A tuple: like data, like moving_mean, like moving_var."""
        if data.ndim != -1:
            axis = axis_at(self, self.axis, data.ndim, data)
        named = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
        want_kinds(self, FLOATS, data=data, **named)
        for name, info in named.items():
            want_rank(self, name, info, 1)
            if data.dims is not None and info.dims is not None:
                if differ(data.dims[axis], info.dims[0]):
                    where = f"one number for each channel (axis {axis}) of {tell(data)}"
                    refuse(self, f"{name} is {tell(info)}, not {where}")
        return TupleStructInfo((data, moving_mean, moving_var))

    def numpy(self, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any) -> Any:
        """The formula, in float64"""
        x, axis = wide(data).astype(np.float64), self.axis % data.ndim
        mean, var = wide(moving_mean), wide(moving_var)
        new_mean, new_var = moving_mean, moving_var
        if self.training:
            others = tuple(i for i in range(x.ndim) if i != axis)
            batch_mean, batch_var = x.mean(others), x.var(others)
            new_mean, new_var = self.moved(mean, batch_mean), self.moved(var, batch_var)
            mean, var = batch_mean, batch_var
        line = [-1 if i == axis else 1 for i in range(x.ndim)]
        result = (x - mean.reshape(line)) / np.sqrt(var.reshape(line) + self.epsilon)
        result = result * wide(gamma).reshape(line) if self.scale else result
        result = result + wide(beta).reshape(line) if self.center else result
        kinds = (data.dtype, moving_mean.dtype, moving_var.dtype)
        found = (result, new_mean, new_var)
        return tuple(np.asarray(a).astype(k) for a, k in zip(found, kinds, strict=True))

    def moved(self, old: Any, new: Any) -> Any:
        """The moving statistic after this batch."""
        return old * (1 - self.momentum) + new * self.momentum

    def compute(self, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any) -> Any:
        """One elementwise loop; in training two reductions come first."""
        axis, kind = self.axis % len(data.shape), accumulator(data.dtype)
        mean, var, rest = moving_mean, moving_var, None
        new_mean, new_var = _copied(moving_mean, "moving_mean"), _copied(moving_var, "moving_var")
        if self.training:
            others = [i for i in range(len(data.shape)) if i != axis]
            mean, rest, variance = spread_over(over_axes(data, others), kind, "batch")
            var = te.compute(mean.shape, variance, name="batch_var")
            new_mean = self.moving(moving_mean, mean, "moving_mean")
            new_var = self.moving(moving_var, var, "moving_var")

        def element(*index: Any) -> Any:
            c = index[axis]
            away = cast(kind, data(*index)) - cast(kind, mean(c))
            away = away if rest is None else away - rest(c)
            value = away / te.sqrt(cast(kind, var(c)) + const(self.epsilon, kind))
            value = value * cast(kind, gamma(c)) if self.scale else value
            value = value + cast(kind, beta(c)) if self.center else value
            return cast(data.dtype, value)

        return te.compute(data.shape, element, name="batch_norm"), new_mean, new_var

    def moving(self, old: Any, new: Any, name: str) -> Any:
        """te tensor of a moving statistic after this batch."""

        def element(c: Any) -> Any:
            kind = new.dtype
            kept = cast(kind, old(c)) * const(1 - self.momentum, kind)
            return cast(old.dtype, kept + new(c) * const(self.momentum, kind))

        return te.compute(old.shape, element, name=name)

    def flops(self, data: Any, *_rest: Any) -> Any:
        """Four an element; twice that in training."""
        return None if data.dims is None else size(data) * (8 if self.training else 4)


def _copied(x: Any, name: str) -> Any:
    return te.compute(x.shape, lambda c: x(c), name=name)


@onnx("BatchNormalization", since=7)
def onnx_batch_normalization(
    n: OnnxNode, x: Expr, scale: Expr, bias: Expr, mean: Expr, var: Expr
) -> Any:
    """Inference; with `training_mode` (opset 14), or several outputs before, the training form."""
    if n.attr("spatial", 1) != 1:
        n.refuse("spatial = 0 (a statistic for each element) is not there")
    training = bool(n.attr("training_mode", 0)) if n.opset >= 14 else n.num_outputs > 1
    both = n.emit(
        make_call(
            BatchNorm, x, scale, bias, mean, var,
            axis=1,
            epsilon=n.attr("epsilon", 1e-5),
            momentum=1.0 - n.attr("momentum", 0.9),
            training=training,
        )
    )  # fmt: skip
    if training and n.num_outputs > 3:
        n.refuse("the saved mean and variance of opset 7 to 13 are not there")
    if n.num_outputs == 1:
        return TupleGetItem(both, 0)
    return tuple(TupleGetItem(both, i) for i in range(n.num_outputs))


@onnx("BatchNormalization", since=1)
def onnx_batch_normalization_old(
    n: OnnxNode, x: Expr, scale: Expr, bias: Expr, mean: Expr, var: Expr
) -> Any:
    """Before opset 7, `is_test` says that it is inference."""
    if not n.attr("is_test", 0):
        n.refuse("the training form of opset 1 to 6 is not there", hint="set is_test = 1")
    call_ = make_call(
        BatchNorm, x, scale, bias, mean, var, epsilon=n.attr("epsilon", 1e-5), training=False
    )
    return TupleGetItem(n.emit(call_), 0)
