"""Gradients of operators element by element, of one tensor or of several that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mlcnb.op.grad.rules.registry import dims_of, fitted, name_of, number, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Var
from mlcnb.relax.operator import attrs_of


@rule(*"equal not_equal less less_equal greater greater_equal".split())
@rule(*"zeros ones full zeros_like ones_like full_like grad.no_grad".split())
@rule(*"floor ceil round trunc sign floor_divide".split())
def _nothing(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [None] * len(call.args)


#: (share of y = f(x), x, y) -> share of x
_OF_ONE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "abs": lambda g, x, y: g * op.where(op.less(x, number(0, x)), number(-1, x), number(1, x)),
    "negative": lambda g, x, y: -g,
    "exp": lambda g, x, y: g * y,
    "log": lambda g, x, y: g / x,
    "sqrt": lambda g, x, y: number(0.5, g) * g / y,
    "rsqrt": lambda g, x, y: number(-0.5, g) * g * y / x,
    "square": lambda g, x, y: number(2, g) * g * x,
    "sin": lambda g, x, y: g * op.cos(x),
    "cos": lambda g, x, y: -g * op.sin(x),
    "tanh": lambda g, x, y: g * (number(1, y) - y * y),
    "sigmoid": lambda g, x, y: g * y * (number(1, y) - y),
    "tan": lambda g, x, y: g * (number(1, y) + y * y),
    "sinh": lambda g, x, y: g * op.cosh(x),
    "cosh": lambda g, x, y: g * op.sinh(x),
    "asin": lambda g, x, y: g * op.rsqrt(number(1, x) - x * x),
    "acos": lambda g, x, y: -g * op.rsqrt(number(1, x) - x * x),
    "atan": lambda g, x, y: g / (number(1, x) + x * x),
    "asinh": lambda g, x, y: g * op.rsqrt(number(1, x) + x * x),
    "acosh": lambda g, x, y: g * op.rsqrt(x * x - number(1, x)),
    "atanh": lambda g, x, y: g / (number(1, x) - x * x),
    "expm1": lambda g, x, y: g * (y + number(1, y)),
    "erf": lambda g, x, y: g * number(2 / math.sqrt(math.pi), x) * op.exp(-(x * x)),
}


@rule(*_OF_ONE)
def _of_one(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [_OF_ONE[name_of(call)](grad, call.args[0], var)]


@rule("nn.relu")
def _relu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """At 0 everything goes back, as in TVM (in PyTorch nothing does; any part of it is right)."""
    x = call.args[0]
    return [op.where(op.less(x, number(0, x)), number(0, x), grad)]


@rule("nn.leakyrelu")
def _leakyrelu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """At 0 all of it goes back, as for relu."""
    x = call.args[0]
    at: Any = attrs_of(call)
    return [op.where(op.less(x, number(0, x)), number(at.alpha, x) * grad, grad)]


@rule("nn.softplus")
def _softplus(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """log(1 + exp(beta x)) / beta; above the threshold it is x."""
    x = call.args[0]
    at: Any = attrs_of(call)
    scaled = builder.emit(x * number(at.beta, x))
    is_linear = op.greater(scaled, number(at.threshold, x))
    return [op.where(is_linear, grad, grad * op.sigmoid(scaled))]


@rule("clip")
def _clip(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """At a limit all of it goes back, as in PyTorch."""
    x = call.args[0]
    stays = op.equal(x, var)
    return [op.where(stays, grad, number(0, grad)), *[None] * len(call.args[1:])]


@rule("nn.silu")
def _silu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    s = builder.emit(op.sigmoid(call.args[0]))
    return [grad * (s + var * (number(1, var) - s))]


@rule("nn.gelu")
def _gelu(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """d/dx x P(x) = P(x) + x p(x), of the normal distribution P and its density p."""
    x = call.args[0]
    below = number(0.5, x) * (number(1, x) + op.erf(x * number(math.sqrt(0.5), x)))
    density = op.exp(x * x * number(-0.5, x)) * number(1 / math.sqrt(2 * math.pi), x)
    return [grad * (below + x * density)]


@rule("astype")
def _astype(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    kind = call.args[0].struct_info.dtype
    return [op.astype(grad, str(kind)) if kind.is_float else None]


@rule("triu", "tril")
def _triangle(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [Call(call.op, (grad, *call.args[1:]), call.attrs), *[None] * len(call.args[1:])]


@rule("add")
def _add(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims = dims_of(var, call)
    return [fitted(grad, dims, x, call) for x in call.args]


@rule("subtract")
def _subtract(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims, (x, y) = dims_of(var, call), call.args
    return [fitted(grad, dims, x, call), fitted(-grad, dims, y, call)]


@rule("multiply")
def _multiply(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims, (x, y) = dims_of(var, call), call.args
    return [fitted(grad * y, dims, x, call), fitted(grad * x, dims, y, call)]


@rule("divide")
def _divide(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims, (x, y) = dims_of(var, call), call.args
    return [fitted(grad / y, dims, x, call), fitted(-grad * var / y, dims, y, call)]


@rule("power")
def _power(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Of the exponent where x is not negative: it has no gradient elsewhere. At an exponent of 0,
    and for that of 0 to no negative one, it is 0, where a factor is infinite.
    """
    dims, (x, y), zero = dims_of(var, call), call.args, number(0, grad)
    of_x = op.where(op.equal(y, number(0, y)), zero, grad * y * (x ** (y - number(1, y))))
    stays = op.logical_and(op.equal(x, number(0, x)), op.greater_equal(y, number(0, y)))
    of_y = op.where(stays, zero, grad * var * op.log(x))
    return [fitted(of_x, dims, x, call), fitted(of_y, dims, y, call)]


@rule("floor_mod")
def _floor_mod(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """x - y floor(x / y)"""
    dims, (x, y) = dims_of(var, call), call.args
    of_y = -grad * op.floor_divide(x, y)
    return [fitted(grad, dims, x, call), fitted(of_y, dims, y, call)]


@rule("maximum", "minimum")
def _extreme(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """All goes back to the one that was taken."""
    dims, (x, y), zero = dims_of(var, call), call.args, number(0, grad)
    tests = (op.less, op.greater_equal)
    pairs = zip(tests if name_of(call) == "maximum" else tests[::-1], call.args, strict=True)
    return [fitted(op.where(lost(x, y), zero, grad), dims, to, call) for lost, to in pairs]


@rule("where")
def _where(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    test, x, y = call.args
    dims, zero = dims_of(var, call), number(0, grad)
    taken, left = op.where(test, grad, zero), op.where(test, zero, grad)
    return [None, fitted(taken, dims, x, call), fitted(left, dims, y, call)]
