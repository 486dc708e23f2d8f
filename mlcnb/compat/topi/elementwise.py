"""Elementwise operators of tensor expressions."""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import binary, run, unary
from mlcnb.ir import prim_ops as p

abs, acos, acosh, asin, asinh = map(unary, ["abs", "acos", "acosh", "asin", "asinh"])
atan, atanh, ceil, cos, cosh = map(unary, ["atan", "atanh", "ceil", "cos", "cosh"])
erf, exp, floor, isfinite, isinf = map(unary, ["erf", "exp", "floor", "isfinite", "isinf"])
isnan, log, negative, round, rsqrt = map(unary, ["isnan", "log", "negative", "round", "rsqrt"])
sigmoid, sign, sin, sinh, sqrt = map(unary, ["sigmoid", "sign", "sin", "sinh", "sqrt"])
tan, tanh, trunc = map(unary, ["tan", "tanh", "trunc"])
# TVM approximates these; exp, tanh and erf are fast, and exact to the last bits
fast_exp, fast_tanh, fast_erf = map(unary, ["exp", "tanh", "erf"])
bitwise_not, logical_not = map(unary, ["bitwise_not", "logical_not"])

add, subtract, multiply = map(binary, ["add", "subtract", "multiply"])
maximum, minimum, power = map(binary, ["maximum", "minimum", "power"])
equal, not_equal, less = map(binary, ["equal", "not_equal", "less"])
less_equal, greater, greater_equal = map(binary, ["less_equal", "greater", "greater_equal"])
bitwise_and, bitwise_or, bitwise_xor = map(binary, ["bitwise_and", "bitwise_or", "bitwise_xor"])
logical_and, logical_or, logical_xor = map(binary, ["logical_and", "logical_or", "logical_xor"])
divide = binary("divide", p.div)
floor_divide = binary("floor_divide", p.floordiv)
floor_mod = binary("floor_mod", p.floormod)
mod = binary("mod", p.truncmod)
left_shift = binary("left_shift", p.shift_left)
right_shift = binary("right_shift", p.shift_right)


def log2(x: te.Tensor) -> te.Tensor:
    """The logarithm to base 2, elementwise."""
    return te.compute(x.shape, lambda *i: te.log2(x(*i)), name="log2")


def log10(x: te.Tensor) -> te.Tensor:
    """The logarithm to base 10, elementwise."""
    return te.compute(x.shape, lambda *i: te.log10(x(*i)), name="log10")


def identity(x: te.Tensor) -> te.Tensor:
    """A copy."""
    return te.compute(x.shape, lambda *i: x(*i), name="identity")


def truncmod(lhs: Any, rhs: Any) -> Any:
    """The remainder with the sign of the dividend, of scalars."""
    return p.truncmod(lhs, rhs)


def where(condition: te.Tensor, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """x where the condition holds, else y, with broadcasting."""
    return run("where", condition, x, y)


def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """Elements below `a_min` become it, those above `a_max` that."""
    return run("clip", x, p.as_expr(a_min, x.dtype), p.as_expr(a_max, x.dtype))


def cast(x: Any, dtype: str) -> Any:
    """Elements in another dtype; of a scalar an expression."""
    return run("astype", x, dtype=dtype) if isinstance(x, te.Tensor) else p.cast(dtype, x)
