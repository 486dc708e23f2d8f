"""Gradients of products, softmax and losses, and of functions of loops that name theirs."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product
from mlcnb.op.grad.rules import registry
from mlcnb.op.grad.rules.registry import dims_of, fitted, known, number, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Op, Tuple, Var, const
from mlcnb.relax.operator import attrs_of, call_arguments
from mlcnb.relax.struct_info import TupleStructInfo


@rule("call_tir_with_grad")
def _call_tir(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    attrs: Any = call.attrs
    function = registry.te_gradients.get(attrs.te_grad_name)
    if function is None:
        raise UnsupportedOpError(
            f"{var.name_hint}: no gradient is registered as {attrs.te_grad_name!r}",
            where=call,
            hint="relax.training.utils.register_te_gradient says it",
        )
    tensors: Any = call.args[1]
    made = builder.emit_te(
        function,
        grad,
        *tensors.fields,
        primfunc_name_hint=attrs.te_grad_name,
        **attrs.te_grad_kwargs,
    )
    several = isinstance(made.struct_info, TupleStructInfo)
    return [None, made if several else Tuple((made,)), *[None] * len(call.args[2:])]


def _turned(x: Any) -> Any:
    ndim = x.struct_info.ndim
    return op.permute_dims(x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])


@rule("matmul")
def _matmul(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """g b' and a' g; a row or a column is a matrix first. All rows that meet one matrix add up."""
    a, b = call.args
    of_a, of_b, out = dims_of(a, call), dims_of(b, call), dims_of(var, call)
    if len(of_a) == len(of_b) == 1:
        return [grad * b, grad * a]
    if len(of_a) > 2 and len(of_b) == 2:
        rows, columns = (
            builder.emit(op.reshape(x, [product(dims[:-1]), dims[-1]]))
            for x, dims in ((a, of_a), (grad, out))
        )
        return [op.matmul(grad, _turned(b)), op.matmul(_turned(rows), columns)]
    row, column = len(of_a) == 1, len(of_b) == 1
    batch = out[: len(out) - 2 + row + column]
    if row:
        grad = builder.emit(op.expand_dims(grad, axis=[-2]))
    if column:
        grad = builder.emit(op.expand_dims(grad, axis=[-1]))
    left = op.matmul(grad, op.expand_dims(b, axis=[0]) if column else _turned(b))
    right = op.matmul(op.expand_dims(a, axis=[1]) if row else _turned(a), grad)
    if column:
        right = op.squeeze(right, axis=[-1])
    dims_a = (*batch, *((1,) if row else ()), *of_a[-2:])
    dims_b = (*batch, *of_b[-2:])
    return [fitted(left, dims_a, a, call), fitted(right, dims_b, b, call)]


@rule("nn.softmax")
def _softmax(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [(grad - op.sum(grad * var, axis=[axis], keepdims=True)) * var]


@rule("nn.log_softmax")
def _log_softmax(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [grad - op.sum(grad, axis=[axis], keepdims=True) * op.exp(var)]


@rule("nn.cross_entropy_with_logits")
def _cross_entropy(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, y = call.args
    dims = dims_of(x, call)
    if len(dims) > 1:
        grad = builder.emit(grad / number(known(dims[0], call), grad))
    return [-grad * y, -grad * x]


@rule("nn.nll_loss")
def _nll_loss(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Of the predictions and the weights; targets have none."""
    predictions, targets, *weights = call_arguments(call)
    at: Any = attrs_of(call)
    given = [w for w in weights if w is not None and not isinstance(w, Op)]
    back = op.grad.nll_loss_backward(
        grad, predictions, targets, *given, reduction=at.reduction, ignore_index=at.ignore_index
    )
    of_weights = [_of_class_weights(var, call, grad, builder, w) for w in given]
    return [back, None, *of_weights, *[None] * (len(call.args) - 2 - len(given))]


def _of_class_weights(var: Var, call: Call, grad: Any, builder: Any, weights: Any) -> Any:
    """-p of each target goes to the weight of its class; of a mean, by the sum of the weights, less
    what that sum takes from it.
    """
    predictions, targets, *_ = call_arguments(call)
    at: Any = attrs_of(call)
    each = op.nn.nll_loss(predictions, targets, reduction="none", ignore_index=at.ignore_index)
    classes = targets.struct_info.dtype
    ignored = builder.emit(op.equal(targets, const(at.ignore_index, str(classes))))
    known_targets = op.where(ignored, const(0, str(classes)), targets)
    known_targets = builder.emit(known_targets)
    if at.reduction == "mean":
        taken = op.take(weights, known_targets, axis=0)
        whole = op.sum(op.where(ignored, number(0, weights), taken))
        less = op.where(ignored, number(0, var), each - var)
        share = grad * less / builder.emit(whole)
    else:
        share = grad * each
    share = builder.emit(share)
    return op.grad.take_backward(share, weights, known_targets, axis=0)
