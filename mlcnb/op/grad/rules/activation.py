"""Gradients of activations, and of functions of two numbers that broadcast."""

from __future__ import annotations

from typing import Any

from mlcnb.op.grad.rules.registry import dims_of, fitted, number, rule
from mlcnb.op.nn.activation import GELU_SCALE, SELU_ALPHA, SELU_SCALE
from mlcnb.relax import op
from mlcnb.relax.expr import Call, TupleGetItem, Var
from mlcnb.relax.operator import attrs_of


@rule("nn.relu6")
def _relu6(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """At a limit all of it goes back, as for clip."""
    return [op.where(op.equal(call.args[0], var), grad, number(0, grad))]


@rule("nn.selu")
def _selu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x = call.args[0]
    low = grad * (number(SELU_SCALE * SELU_ALPHA, x) * op.exp(x))
    return [op.where(op.greater(x, number(0, x)), grad * number(SELU_SCALE, x), low)]


@rule("nn.gelu_tanh")
def _gelu_tanh(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """x s(u), u = c (x + 0.044715 x^3), c = 2 sqrt(2 / pi)"""
    x, cubic = call.args[0], GELU_SCALE * 0.044715
    square = builder.emit(x * x)
    scale = number(GELU_SCALE, x)
    s = builder.emit(op.sigmoid(x * (scale + number(cubic, x) * square)))
    steep = scale + number(3 * cubic, x) * square
    return [grad * (s + x * s * (number(1, x) - s) * steep)]


@rule("nn.prelu")
def _prelu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """At 0 alpha's part goes back, as in PyTorch."""
    x, alpha = call.args
    dims, at = dims_of(x, call), attrs_of(call)
    axis: int = at.axis % len(dims)  # type: ignore[attr-defined]
    (count,) = dims_of(alpha, call)
    line = builder.emit(op.reshape(alpha, [count if i == axis else 1 for i in range(len(dims))]))
    above = builder.emit(op.greater(x, number(0, x)))
    lost = builder.emit(op.where(above, number(0, grad), grad * x))
    of_alpha = op.reshape(op.collapse_sum_to(lost, dims_of(line, call)), [count])
    return [op.where(above, grad, grad * line), of_alpha]


@rule("nn.dropout")
def _dropout(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Nothing is dropped: what comes back for the first of both goes back."""
    return [builder.emit(TupleGetItem(grad, 0))]


@rule("atan2")
def _atan2(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims, (y, x) = dims_of(var, call), call.args
    each = builder.emit(grad / (y * y + x * x))
    return [fitted(each * x, dims, y, call), fitted(-each * y, dims, x, call)]


@rule("log_add_exp")
def _log_add_exp(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """By their shares of the sum."""
    dims, (x, y) = dims_of(var, call), call.args
    of_x, of_y = (grad * op.sigmoid(a - b) for a, b in ((x, y), (y, x)))
    return [fitted(of_x, dims, x, call), fitted(of_y, dims, y, call)]


@rule("mod")
def _mod(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """x - y trunc(x / y)"""
    dims, (x, y) = dims_of(var, call), call.args
    of_y = -grad * op.trunc(x / y)
    return [fitted(grad, dims, x, call), fitted(of_y, dims, y, call)]


@rule("ewise_fma")
def _fma(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims, (x, y, z) = dims_of(var, call), call.args
    parts = (grad * y, x), (grad * x, y), (grad, z)
    return [fitted(share, dims, of, call) for share, of in parts]
