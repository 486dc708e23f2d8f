"""Losses: nn.cross_entropy_with_logits, nn.nll_loss; ONNX's two.

nll_loss    -weights[t] * predictions[n, t, …], where t = targets[n, …]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import cast, const, maximum, minimum
from mlcnb.op._accumulate import accumulator, in_wide, rounded, wide
from mlcnb.op._dims import (
    broadcast,
    differ,
    one_dtype,
    product,
    refuse,
    tell,
    tensor,
    unfit,
    want_same_dtype,
)
from mlcnb.op.nn.softmax import LogSoftmax
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, OptionalTensor, Tensor, make_call, operator

REDUCTIONS = ("none", "sum", "mean")


@operator("relax.nn.cross_entropy_with_logits")
class CrossEntropyWithLogits(OpDecl):
    """-sum(predictions * labels) / batch: predictions are log-probabilities, labels probabilities.

    Of tensors of one dimension, there is no batch. Semantics: TVM's operator of this name.
    """

    cost = 2

    predictions: Tensor
    labels: Tensor

    def infer(self, predictions: Any, labels: Any) -> Any:
        """A scalar."""
        want_same_dtype(self, predictions=predictions, labels=labels)
        ranks = {t.ndim for t in (predictions, labels)} - {-1}
        if len(ranks) > 1:
            refuse(self, f"{tell(predictions)} and {tell(labels)} differ in rank")
        broadcast(self, predictions, labels)
        return tensor([], one_dtype(predictions, labels))

    @in_wide
    def numpy(self, predictions: Any, labels: Any) -> Any:
        """The formula"""
        batch = predictions.shape[0] if predictions.ndim > 1 else 1
        return -np.sum(predictions * labels) / predictions.dtype.type(batch)

    def compute(self, predictions: Any, labels: Any) -> Any:
        """A sum, and a division."""
        dims, kind = predictions.shape, accumulator(predictions.dtype)
        axes = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(dims)]

        def element() -> Any:
            pair = cast(kind, predictions(*axes)) * cast(kind, labels(*axes))
            return te.sum(pair, axis=axes)

        total = te.compute((), element, name="cross_entropy_sum")
        batch = cast(kind, dims[0] if len(dims) > 1 else 1)
        loss = te.compute((), lambda: -total() / batch, name="cross_entropy")
        return rounded(loss, predictions.dtype, "cross_entropy_cast")


@operator("relax.nn.nll_loss")
class NllLoss(OpDecl):
    """Negative log-likelihood: predictions (N, C, …) are log-probabilities, targets (N, …) classes.

    weights: one for each class (default 1). Targets equal to `ignore_index` do not count.
    reduction: none, sum, or mean (the sum, divided by the sum of the weights that count).
    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
    """

    predictions: Tensor
    targets: Tensor
    weights: OptionalTensor
    reduction: str = "mean"
    ignore_index: int = -100

    def infer(self, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """A scalar, or like targets where reduction is none."""
        if self.reduction not in REDUCTIONS:
            refuse(self, f"no reduction {self.reduction!r}", hint=f"one of {', '.join(REDUCTIONS)}")
        if targets.dtype and not targets.dtype.is_integer:
            refuse(self, f"targets must be integers, but are {tell(targets)}")
        self.check(predictions, targets, weights)
        if self.reduction != "none":
            return tensor([], predictions.dtype)
        return tensor(targets.dims, predictions.dtype, targets.ndim)

    def check(self, predictions: Any, targets: Any, weights: Any) -> None:
        """Refuse shapes that do not belong together."""
        if predictions.dims is None or targets.dims is None:
            return
        want = _without_classes(predictions.dims)
        if unfit(want, targets.dims):
            refuse(self, f"targets are {tell(targets)}, which does not fit {tell(predictions)}")
        classes = _classes(predictions.dims)
        if weights is not None and weights.dims is not None:
            if weights.ndim != 1 or differ(weights.dims[0], classes):
                refuse(self, f"weights are {tell(weights)}, not one a class of {tell(predictions)}")

    def numpy(self, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """The formula"""
        x = wide(predictions)
        axis = min(1, x.ndim - 1)
        counts = targets != self.ignore_index
        at = np.where(counts, targets, 0)
        picked = np.take_along_axis(x, np.expand_dims(at, axis), axis).squeeze(axis)
        weight = np.ones(x.shape[axis], x.dtype) if weights is None else wide(weights)
        each = np.where(counts, weight[at], 0)
        loss = -picked * each
        if self.reduction != "none":
            loss = loss.sum()
        if self.reduction == "mean":
            loss = loss / each.sum()
        return np.asarray(loss).astype(predictions.dtype)

    def compute(self, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """A loop over the targets; then one or two sums, and a division."""
        kind, classes = accumulator(predictions.dtype), _classes(predictions.shape)
        weight = self.weighing(targets, weights, predictions)

        def loss(*index: Any) -> Any:
            inside = maximum(minimum(targets(*index), classes - 1), 0)
            at = (index[0], inside, *index[1:]) if index else (inside,)
            return -cast(kind, predictions(*at)) * weight(*index)

        each = te.compute(targets.shape, loss, name="nll_loss")
        if self.reduction == "none":
            return rounded(each, predictions.dtype, "nll_loss_cast")
        total = total_of(targets.shape, each, "nll_loss_sum")
        if self.reduction == "mean":
            count = total_of(targets.shape, weight, "nll_loss_weights")
            sums = total
            total = te.compute((), lambda: sums() / count(), name="nll_loss_mean")
        return rounded(total, predictions.dtype, "nll_loss_cast")

    def weighing(self, targets: Any, weights: Any, predictions: Any) -> Any:
        """The loop over the weights: where a target is -> what it counts."""
        kind, classes = accumulator(predictions.dtype), _classes(predictions.shape)

        def weight(*index: Any) -> Any:
            target = targets(*index)
            inside = maximum(minimum(target, classes - 1), 0)
            value = const(1, kind) if weights is None else cast(kind, weights(inside))
            return te.Select(target.equal(self.ignore_index), const(0, kind), value)

        return weight

    def flops(self, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Three for each target."""
        return None if targets.dims is None else product(targets.dims) * 3


def _without_classes(dims: Sequence[Any]) -> list[Any]:
    return [*dims[:1], *dims[2:]] if len(dims) > 1 else []


def _classes(dims: Sequence[Any]) -> Any:
    return dims[1] if len(dims) > 1 else dims[0]


def total_of(shape: Sequence[Any], value: Any, name: str) -> Any:
    """te tensor: the sum of what `value` gives for each place of a shape."""
    axes = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(shape)]
    if not axes:
        return te.compute((), lambda: value(), name=name)
    return te.compute((), lambda: te.sum(value(*axes), axis=axes), name=name)


def _loss(n: OnnxNode, x: Expr, target: Expr, weights: Expr | None) -> Expr:
    ignore = n.attr("ignore_index", -100)
    attrs = {"reduction": n.attr("reduction", "mean"), "ignore_index": ignore}
    return make_call(NllLoss, x, target, weights, **attrs)


@onnx("NegativeLogLikelihoodLoss", since=12)
def onnx_nll_loss(n: OnnxNode, x: Expr, target: Expr, weights: Expr | None = None) -> Expr:
    """nll_loss"""
    return _loss(n, x, target, weights)


@onnx("SoftmaxCrossEntropyLoss", since=12)
def onnx_softmax_cross_entropy(
    n: OnnxNode, scores: Expr, labels: Expr, weights: Expr | None = None
) -> Any:
    """log_softmax over the classes, then nll_loss; the log-probabilities where they are used."""
    log_prob = n.emit(make_call(LogSoftmax, scores, axis=1))
    loss = _loss(n, log_prob, labels, weights)
    return loss if n.num_outputs == 1 else (loss, log_prob)
