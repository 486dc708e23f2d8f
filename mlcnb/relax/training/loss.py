"""Losses: graph functions of predictions and targets.

MSELoss()(prediction, target)        @R.function
                                     def mse_loss(predictions, targets):
                                         with R.dataflow():
                                             lv = R.subtract(predictions, targets)
                                             lv1 = R.multiply(lv, lv)
                                             gv = R.mean(lv1)
"""

from __future__ import annotations

from typing import Any, ClassVar

from mlcnb.core.errors import ArgumentError
from mlcnb.relax import op
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Expr, Function, Var
from mlcnb.relax.struct_info import StructInfo, TensorStructInfo

_REDUCTIONS = ("mean", "sum", "none")


class Loss:
    """A loss. Called with its arguments, variables or struct infos, it gives the graph function.

    loss_name: the function's; reduction: mean or sum of the elements, or none.
    num_backbone_outputs: how many of its first arguments a model gives.

    Raises:
        ArgumentError: there is no such reduction.
    """

    def __init__(
        self, loss_name: str, reduction: str = "mean", num_backbone_outputs: int = 1
    ) -> None:
        if reduction not in _REDUCTIONS:
            raise ArgumentError(
                f"{loss_name}: there is no reduction {reduction!r}", hint=", ".join(_REDUCTIONS)
            )
        self._loss_name = loss_name
        self._reduction = reduction
        self._num_backbone_outputs = num_backbone_outputs

    @property
    def num_backbone_outputs(self) -> int:
        """How many of its first arguments a model gives."""
        return self._num_backbone_outputs

    def _function(self, *params: Var) -> Function:
        """`_value` of the parameters, as a function of one dataflow block."""
        bb = BlockBuilder()
        with bb.function(self._loss_name, list(params)):
            with bb.dataflow():
                result = bb.emit_output(self._value(bb, *params))
            bb.emit_func_output(result)
        found: Any = bb.get()[self._loss_name]
        return found

    def __call__(self, predictions: Any, targets: Any) -> Function:
        """The function of predictions and targets."""
        return self._function(_param(predictions, "predictions"), _param(targets, "targets"))

    def _value(self, bb: BlockBuilder, *params: Var) -> Expr:
        raise NotImplementedError

    def _reduced(self, value: Expr) -> Expr:
        """By the reduction."""
        return value if self._reduction == "none" else getattr(op, self._reduction)(value)


def _param(given: Any, name: str) -> Var:
    """A parameter: a new one of the struct info, or that of a variable."""
    if isinstance(given, StructInfo):
        return Var(name, given)
    if not isinstance(given, Var):
        raise ArgumentError(
            f"{name} is a variable or a struct info, not {given!r}",
            hint='relax.TensorStructInfo((2, 3), "float32")',
        )
    return Var(given.name_hint, given.struct_info)


class L1Loss(Loss):
    """The absolute differences |predictions - targets|, of equal shapes and float dtypes."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("l1_loss", reduction)

    def _value(self, bb: BlockBuilder, *params: Var) -> Expr:
        return self._reduced(bb.emit(op.abs(bb.emit(op.subtract(*params)))))


class MSELoss(Loss):
    """The squares of the differences, of equal shapes and float dtypes."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("mse_loss", reduction)

    def _value(self, bb: BlockBuilder, *params: Var) -> Expr:
        difference = bb.emit(op.subtract(*params))
        return self._reduced(bb.emit(op.multiply(difference, difference)))


class _OfClasses(Loss):
    """Base of losses of scores of classes, with a weight for each class where these are given."""

    name: ClassVar[str]

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(self.name, reduction)
        self.ignore_index = ignore_index

    def __call__(self, predictions: Any, targets: Any, weights: Any = None) -> Function:
        """The function of predictions, targets, and weights where they are given."""
        params = [_param(predictions, "predictions"), _param(targets, "targets")]
        if weights is not None:
            params.append(_param(weights, "weights"))
        return self._function(*params)


class CrossEntropyLoss(_OfClasses):
    """log_softmax and nll_loss: predictions (N, C, …) are scores, targets (N, …) are classes.

    ignore_index: a class that does not count; weights, if given: one for each class.
    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    name = "cross_entropy_loss"

    def _value(self, bb: BlockBuilder, *params: Var) -> Expr:
        predictions, targets, *weights = params
        info = predictions.struct_info
        axis = 1 if isinstance(info, TensorStructInfo) and info.ndim > 1 else -1
        scores = bb.emit(op.nn.log_softmax(predictions, axis=axis))
        given = weights[0] if weights else None
        return op.nn.nll_loss(scores, targets, given, self._reduction, self.ignore_index)


class CategoricalCrossEntropyLoss(_OfClasses):
    """Cross entropy of scores (N, C) and targets (N, C) of one class a row: integers, 0 and 1.

    The elements -log_softmax(predictions) * targets, of which the mean is over all N * C, as in
    TVM; weights, if given: one for each class. With an ignore_index of 0 or more it is
    CrossEntropyLoss of the classes, whose mean is over the rows that count.
    """

    name = "categorical_cross_entropy_loss"

    def _value(self, bb: BlockBuilder, *params: Var) -> Expr:
        predictions, targets, *weights = params
        scores = bb.emit(op.nn.log_softmax(predictions, axis=-1))
        given = weights[0] if weights else None
        if self.ignore_index >= 0:
            classes = bb.emit(op.argmax(targets, axis=1))
            return op.nn.nll_loss(scores, classes, given, self._reduction, self.ignore_index)
        info: Any = predictions.struct_info
        shares = bb.emit(op.astype(targets, info.dtype))
        each = bb.emit(op.multiply(bb.emit(op.negative(scores)), shares))
        return self._reduced(each if given is None else bb.emit(op.multiply(each, given)))
