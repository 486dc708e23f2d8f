"""Operators of one element each: of one Tensor, of two, comparisons, where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.relax.frontend.nn.tensor import Tensor, as_tensor, call, named

Unary = Callable[..., Tensor]


def _unary(name: str, text: str, sugar: str = "", hint: str = "") -> Unary:
    def apply(x: Tensor, name: str = hint or name) -> Tensor:
        return call(sugar or public, x, name=name)

    public = name
    return named(apply, name, text)


def _binary(name: str, text: str, hint: str = "") -> Callable[..., Tensor]:
    def apply(a: Any, b: Any, name: str = hint or name) -> Tensor:
        return _two(public, a, b, name)

    public = name
    return named(apply, name, text)


def _two(sugar: str, a: Any, b: Any, name: str) -> Tensor:
    """A call of two operands, at least one of them a Tensor."""
    like = next((x for x in (a, b) if isinstance(x, Tensor)), None)
    if like is None:
        raise ArgumentError(f"nn.op.{sugar}: {a!r} and {b!r} are no nn.Tensor")
    return call(sugar, as_tensor(a, like), as_tensor(b, like), name=name)


relu = _unary("relu", "max(x, 0), element by element.", "nn.relu")
relu6 = _unary("relu6", "min(max(x, 0), 6), element by element.", "nn.relu6")
silu = _unary("silu", "x * sigmoid(x), element by element.", "nn.silu")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)), element by element.")
tanh = _unary("tanh", "Hyperbolic tangent, element by element.")
exp = _unary("exp", "e to the power of x, element by element.")
log = _unary("log", "Natural logarithm, element by element.")
erf = _unary("erf", "Error function, element by element.")
sin = _unary("sin", "Sine, element by element.")
cos = _unary("cos", "Cosine, element by element.")
floor = _unary("floor", "The integer at or below, element by element.")
abs = _unary("abs", "Absolute value, element by element.")
negative = _unary("negative", "-x, element by element.", hint="neg")
square = _unary("square", "x * x, element by element.")
sqrt = _unary("sqrt", "Square root, element by element.")
rsqrt = _unary("rsqrt", "1 / sqrt(x), element by element.")

add = _binary("add", "a + b, broadcast.")
subtract = _binary("subtract", "a - b, broadcast.")
multiply = _binary("multiply", "a * b, broadcast.", hint="mul")
divide = _binary("divide", "a / b, broadcast.")
power = _binary("power", "a to the power of b, broadcast.")
maximum = _binary("maximum", "The larger of a and b, broadcast.")
minimum = _binary("minimum", "The smaller of a and b, broadcast.")
equal = _binary("equal", "a == b, broadcast; dtype bool.")
not_equal = _binary("not_equal", "a != b, broadcast; dtype bool.")
less = _binary("less", "a < b, broadcast; dtype bool.")
less_equal = _binary("less_equal", "a <= b, broadcast; dtype bool.")
greater = _binary("greater", "a > b, broadcast; dtype bool.")
greater_equal = _binary("greater_equal", "a >= b, broadcast; dtype bool.")


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """x * Phi(x), element by element; with `approximate="tanh"` the form by tanh.

    Raises:
        ArgumentError: another approximation.
    """
    if approximate not in (None, "none", "tanh"):
        raise ArgumentError(f"nn.op.gelu: no approximation {approximate!r}", hint='None or "tanh"')
    return call("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", x, name=name)


def softplus(
    x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus"
) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    return call("nn.softplus", x, beta=beta, threshold=threshold, name=name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """x where it is positive, else alpha * x; alpha has one element for each of axis 1."""
    return call("nn.prelu", x, alpha, name=name)


def clip(x: Tensor, min: float, max: float, name: str = "clip") -> Tensor:
    """min(max(x, min), max), element by element."""
    return call("clip", x, min=min, max=max, name=name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """The same values in another dtype."""
    return call("astype", x, dtype=dtype, name=name)


def where(condition: Tensor, x1: Any, x2: Any, name: str = "where") -> Tensor:
    """x1 where the condition (a number: where it is not 0) holds, else x2; broadcast."""
    like = next((x for x in (x1, x2) if isinstance(x, Tensor)), None)
    if like is None:
        raise ArgumentError(f"nn.op.where: {x1!r} and {x2!r} are no nn.Tensor")
    holds = condition if condition.dtype == "bool" else condition.astype("bool")
    return call("where", holds, as_tensor(x1, like), as_tensor(x2, like), name=name)
