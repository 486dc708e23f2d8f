"""grad.nll_loss_backward: how nll_loss changes with its predictions.

nll_loss = sum over i of -predictions[i, targets[i]] * weights[targets[i]]      (reduction: sum)
d / d predictions[i, c] = -weights[c] where c is targets[i], else 0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import cast, const
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import refuse, size, tell, unfit, want_same_dtype
from mlcnb.op.nn.loss import NllLoss, total_of
from mlcnb.relax.operator import OpDecl, OptionalTensor, Tensor, operator


@operator("relax.grad.nll_loss_backward")
class NllLossBackward(OpDecl):
    """The gradient of nn.nll_loss for its predictions; arguments and attributes as there.

    output_grad: the gradient for the loss, a scalar or (reduction none) like targets.
    """

    output_grad: Tensor
    predictions: Tensor
    targets: Tensor
    weights: OptionalTensor
    reduction: str = "mean"
    ignore_index: int = -100

    @property
    def forward(self) -> Any:
        """The operator whose gradient this is."""
        made: Any = NllLoss
        return made(self.reduction, self.ignore_index)

    def infer(self, output_grad: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Like predictions."""
        want_same_dtype(self, output_grad=output_grad, predictions=predictions)
        loss = self.forward.infer(predictions, targets, weights)
        if unfit(loss.dims, output_grad.dims):
            refuse(self, f"output_grad is {tell(output_grad)}, but the loss is {tell(loss)}")
        return predictions

    def numpy(self, output_grad: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """A one in the class of each target, times its weight"""
        x, grad = wide(predictions), wide(output_grad)
        axis = min(1, x.ndim - 1)
        classes = x.shape[axis]
        counts = targets != self.ignore_index
        weight = np.ones(classes, x.dtype) if weights is None else wide(weights)
        each = np.where(counts, weight[np.where(counts, targets, 0)], 0)
        scale = grad / each.sum() if self.reduction == "mean" else grad
        line = [classes if i == axis else 1 for i in range(x.ndim)]
        is_it = np.expand_dims(targets, axis) == np.arange(classes).reshape(line)
        found = np.where(is_it, -np.expand_dims(scale * each, axis), 0)
        return found.astype(predictions.dtype)

    def compute(self, output_grad: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """One loop nest; before it, for the mean, the sum of the weights that count."""
        kind, rank = accumulator(predictions.dtype), len(predictions.shape)
        axis = min(1, rank - 1)
        each = self.forward.weighing(targets, weights, predictions)
        total = total_of(targets.shape, each, "nll_loss_weights")

        def element(*index: Any) -> Any:
            at = index[:axis] + index[axis + 1 :]
            grad = cast(kind, output_grad(*(at if self.reduction == "none" else ())))
            value = -grad * each(*at)
            value = value / total() if self.reduction == "mean" else value
            is_it = targets(*at).equal(cast(targets.dtype, index[axis]))
            return cast(predictions.dtype, te.Select(is_it, value, const(0, kind)))

        return te.compute(predictions.shape, element, name="nll_loss_backward")

    def flops(self, output_grad: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Two for each prediction."""
        return None if predictions.dims is None else size(predictions) * 2
