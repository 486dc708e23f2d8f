"""Scalar arithmetic as TensorIR means it: what each operation does to Python numbers of a dtype.

integers   Python ints, wrapped to the dtype after each operation; division by zero is an error
floats     Python floats (doubles), rounded to the dtype after each operation: for the dtypes here
           this is the same as computing in the dtype
bool       Python bools
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from ctypes import c_float
from functools import cache
from typing import Any

import numpy as np

from mlcnb.arith.interval import trunc_divide
from mlcnb.core.errors import ExecutionError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.folding import COMPARISONS, NUMBERS

Scalar = Callable[..., Any]


@cache
def rounder(kind: DType) -> Callable[[float], float]:
    """The function that rounds a double to a float dtype."""
    if kind == "float64":
        return float
    if kind == "float32":
        return lambda x: c_float(x).value
    narrow = kind.numpy.type
    return lambda x: float(narrow(x))


@cache
def wrapper(kind: DType) -> Callable[[int], int]:
    """The function that wraps an int to an integer or bool dtype (two's complement)."""
    if kind.is_bool:
        return bool
    low, high, mask, span = kind.min_value, kind.max_value, (1 << kind.bits) - 1, 1 << kind.bits

    def wrap(x: int) -> int:
        if low <= x <= high:
            return x
        x &= mask
        return x - span if x > high else x

    return wrap


def to_dtype(kind: DType) -> Callable[[Any], Any]:
    """Rounds or wraps a number to a dtype."""
    return rounder(kind) if kind.is_float else wrapper(kind)


def floating_divide(a: float, b: float) -> float:
    """a / b with infinities and NaN as IEEE 754 has them."""
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def smaller(a: Any, b: Any) -> Any:
    """min that gives NaN where one of them is, as np.minimum."""
    if a != a:
        return a
    return b if b != b or b < a else a


def larger(a: Any, b: Any) -> Any:
    """max that gives NaN where one of them is, as np.maximum."""
    if a != a:
        return a
    return b if b != b or b > a else a


def _checked(name: str, fn: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def divide(a: int, b: int) -> int:
        if b == 0:
            raise ExecutionError(f"{name} by zero: {a} by 0")
        return fn(a, b)

    return divide


#: of numbers without bounds
ARITHMETIC: dict[type, Scalar] = {kind: NUMBERS[kind] for kind in (e.Add, e.Sub, e.Mul)}

_INTEGER: dict[type, Scalar] = {
    **ARITHMETIC,
    e.Div: _checked("division", trunc_divide),
    e.Mod: _checked("remainder", lambda a, b: a - trunc_divide(a, b) * b),
    e.FloorDiv: _checked("floordiv", operator.floordiv),
    e.FloorMod: _checked("floormod", operator.mod),
}

_FLOAT: dict[type, Scalar] = {
    **ARITHMETIC,
    e.Div: floating_divide,
    e.Mod: lambda a, b: float(np.fmod(a, b)),
    e.FloorDiv: lambda a, b: float(np.floor(floating_divide(a, b))),
    e.FloorMod: lambda a, b: float(np.mod(a, b)),
}

_EXACT: dict[type, Scalar] = {
    **{kind: NUMBERS[kind] for kind in COMPARISONS},
    e.Min: smaller,
    e.Max: larger,
}


@cache
def binary(node_type: type, kind: DType) -> Scalar:
    """The function of two operands of dtype `kind` that a binary node means."""
    exact = _EXACT.get(node_type)
    if exact is not None:
        return exact
    fn = (_FLOAT if kind.is_float else _INTEGER)[node_type]
    if kind == "float64":
        return fn
    fit = to_dtype(kind)
    return lambda a, b: fit(fn(a, b))


@cache
def caster(source: DType, target: DType) -> Scalar:
    """The function that converts a number of one dtype to another, as C does."""
    if target.is_float:
        return _to_float(target) if not source.is_float else rounder(target)
    if target.is_bool:
        return bool
    if source.is_float:
        return _float_to_integer(target)
    return wrapper(target)


def _to_float(target: DType) -> Scalar:
    fit = rounder(target)

    def convert(x: int) -> float:
        if -(1 << 53) <= x <= 1 << 53:
            return fit(float(x))
        wide = np.array(x, "uint64" if x >= 1 << 63 else "int64")
        return float(wide.astype(target.numpy))

    return convert


def _float_to_integer(target: DType) -> Scalar:
    """Towards zero; beyond the range its end, and 0 for NaN, as the kernels have it."""
    low, high = target.min_value, target.max_value

    def convert(x: float) -> int:
        return int(max(low, min(high, x))) if x == x else 0

    return convert
