"""Constructors of scalar expressions: match the dtypes, fold constants and neutral elements.

`add(x, 0) -> x`, `multiply(IntImm(3), IntImm(4)) -> 12`, `add(int32, int64) -> int64`.
Anything cleverer is `mlcnb.arith`. What makes constants and converts is offered here, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir.conversions import (
    as_expr,
    as_int,
    cast,
    const,
    fitted,
    infinity,
    is_const,
    lanes_of,
    match_dtypes,
    max_value,
    min_value,
    numbers,
    product_of,
    round_to,
    wrap,
    wrapped,
)
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import FloatImm, IntImm, PrimExpr

__all__ = [
    "as_expr", "as_int", "cast", "const", "dtype", "fitted", "infinity", "is_const", "lanes_of",
    "match_dtypes", "max_value", "min_value", "product_of", "round_to", "wrap", "wrapped",
]  # fmt: skip


def _fold(a: PrimExpr, b: PrimExpr, fn: Callable[[Any, Any], Any]) -> PrimExpr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        value = fn(a.value, b.value)
        if a.dtype.is_int and not a.dtype.holds(value):
            return None  # the kernel wraps around; a size or an offset may not
        return wrapped(value, a.dtype)
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return const(_rounded(a, b, fn), a.dtype)
    return None


def _folded(fn: Callable[[Any, Any], Any], kind: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The number that two numbers give; else an expression of that kind."""
    found = _fold(a, b, fn)
    return kind(a, b) if found is None else found


def _rounded(a: FloatImm, b: FloatImm, fn: Callable[[Any, Any], Any]) -> float:
    """Exact for + - * of float32 and narrower: a double holds enough bits to round only once."""
    try:
        return fn(a.value, b.value)
    except OverflowError:
        return math.inf


def add(a: Any, b: Any) -> PrimExpr:
    """a + b, in the common dtype of both.

    A Python number takes the other's dtype; the wider float wins, then the wider integer, then the
    unsigned one, as in C. Integers wrap around, constants too.

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    a, b = numbers(a, b)
    if not a.dtype.is_float:
        if is_const(a, 0):
            return b
        if is_const(b, 0):
            return a
    return _folded(operator.add, e.Add, a, b)


def subtract(a: Any, b: Any) -> PrimExpr:
    """a - b, in the common dtype of both (see `add`).

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    a, b = numbers(a, b)
    if is_const(b, 0) and not a.dtype.is_float:
        return a
    return _folded(operator.sub, e.Sub, a, b)


def multiply(a: Any, b: Any) -> PrimExpr:
    """a * b, in the common dtype of both (see `add`).

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    a, b = numbers(a, b)
    if is_const(a, 1):
        return b
    if is_const(b, 1):
        return a
    if not a.dtype.is_float and (is_const(a, 0) or is_const(b, 0)):
        return a if is_const(a, 0) else b
    return _folded(operator.mul, e.Mul, a, b)


def neg(a: Any) -> PrimExpr:
    """-a"""
    a = as_expr(a)
    if isinstance(a, FloatImm):
        return const(-a.value, a.dtype)
    zero = const(-0.0 if a.dtype.is_float else 0, a.dtype)
    return subtract(zero, a)


def div(a: Any, b: Any) -> PrimExpr:
    """a / b for floats, in their common dtype (see `add`).

    Raises:
        MLCError: integer operands, which have several divisions.
    """
    a, b = numbers(a, b)
    if not a.dtype.is_float:
        raise MLCError(
            "`/` between integers is ambiguous", hint="use // (floordiv), or tir.truncdiv"
        )
    if is_const(b, 1):
        return a
    if is_const(b) and not is_const(b, 0):
        return _folded(operator.truediv, e.Div, a, b)
    return e.Div(a, b)


def _int_division(a: Any, b: Any, name: str) -> tuple[PrimExpr, PrimExpr]:
    a, b = numbers(a, b)
    if is_const(b, 0):
        raise MLCError(f"{name} by zero")
    return a, b


def truncdiv(a: Any, b: Any) -> PrimExpr:
    """Integer a / b rounding towards zero, as in C, in the common dtype (see `add`).

    Raises:
        MLCError: b is the constant 0.
    """
    a, b = _int_division(a, b, "truncdiv")
    if is_const(b, 1):
        return a
    return _folded(_trunc_div, e.Div, a, b)


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncmod(a: Any, b: Any) -> PrimExpr:
    """Remainder of truncdiv: of the sign of a, in the common dtype of both.

    Raises:
        MLCError: b is the constant 0.
    """
    a, b = _int_division(a, b, "truncmod")
    return _folded(lambda x, y: x - _trunc_div(x, y) * y, e.Mod, a, b)


def floordiv(a: Any, b: Any) -> PrimExpr:
    """a // b rounding towards minus infinity.

    Of floats too, in their dtype: floor(a / b).

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = numbers(a, b)
    if a.dtype.is_float:
        return e.Call(a.dtype, "tir.floor", (div(a, b),))
    a, b = _int_division(a, b, "floordiv")
    if is_const(b, 1) or is_const(a, 0):
        return a
    return _folded(operator.floordiv, e.FloorDiv, a, b)


def floormod(a: Any, b: Any) -> PrimExpr:
    """a - floordiv(a, b) * b: of the sign of b, in the common dtype of both.

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = numbers(a, b)
    if a.dtype.is_float:
        return a - floordiv(a, b) * b
    a, b = _int_division(a, b, "floormod")
    if is_const(a, 0):
        return a
    if is_const(b, 1):
        return const(0, a.dtype)
    return _folded(operator.mod, e.FloorMod, a, b)


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """a / b rounding towards plus infinity, for b > 0.

    In the common dtype of both, where a + b - 1 has to fit.

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = match_dtypes(a, b)
    return floordiv(a + (b - 1), b)


def _extreme(kind: Any, fn: Callable[..., Any], a: Any, b: Any) -> PrimExpr:
    a, b = numbers(a, b)
    if a is b:
        return a
    return kind(a, b) if a.dtype.is_float else _folded(fn, kind, a, b)


def minimum(a: Any, b: Any) -> PrimExpr:
    """The smaller of a and b (`tir.min`)."""
    return _extreme(e.Min, min, a, b)


def maximum(a: Any, b: Any) -> PrimExpr:
    """The larger of a and b (`tir.max`)."""
    return _extreme(e.Max, max, a, b)


def _comparison(
    name: str, sign: str, kind: type[e.CmpOp], fn: Callable[[Any, Any], bool]
) -> Callable[[Any, Any], PrimExpr]:
    def compare(a: Any, b: Any) -> PrimExpr:
        a, b = match_dtypes(a, b)
        if isinstance(a, IntImm | FloatImm) and isinstance(b, IntImm | FloatImm):
            return const(fn(a.value, b.value), "bool")
        return kind(a, b)

    compare.__name__ = name
    compare.__doc__ = f"a {sign} b"
    return compare


equal = _comparison("equal", "==", e.EQ, operator.eq)
not_equal = _comparison("not_equal", "!=", e.NE, operator.ne)
less = _comparison("less", "<", e.LT, operator.lt)
less_equal = _comparison("less_equal", "<=", e.LE, operator.le)
greater = _comparison("greater", ">", e.GT, operator.gt)
greater_equal = _comparison("greater_equal", ">=", e.GE, operator.ge)


def equal_or_identity(a: Any, b: Any) -> Any:
    """`a == b` as Python asks it: an expression for scalars, False for anything else."""
    return equal(a, b) if _comparable(a, b) else a is b


def not_equal_or_identity(a: Any, b: Any) -> Any:
    """`a != b` as Python asks it: an expression for scalars, True for anything else."""
    return not_equal(a, b) if _comparable(a, b) else a is not b


def _comparable(a: Any, b: Any) -> bool:
    if not isinstance(b, PrimExpr | int | float):
        return False
    kinds = [x.dtype.is_handle for x in (a, b) if isinstance(x, PrimExpr)]
    return not any(kinds)


def logical_and(a: Any, b: Any) -> PrimExpr:
    """a and b"""
    a, b = as_expr(a), as_expr(b)
    for x, y in ((a, b), (b, a)):
        if is_const(x):
            return y if not is_const(x, 0) else x
    return e.And(a, b)


def logical_or(a: Any, b: Any) -> PrimExpr:
    """a or b"""
    a, b = as_expr(a), as_expr(b)
    for x, y in ((a, b), (b, a)):
        if is_const(x):
            return x if not is_const(x, 0) else y
    return e.Or(a, b)


def logical_not(a: Any) -> PrimExpr:
    """not a"""
    a = as_expr(a)
    if is_const(a) and isinstance(a, IntImm):
        return const(not a.value, "bool")
    return a.a if isinstance(a, e.Not) else e.Not(a)


def all_of(*conditions: Any) -> PrimExpr:
    """The conjunction of the conditions (`tir.all`); true where there are none."""
    return reduce(logical_and, conditions, const(True))


def any_of(*conditions: Any) -> PrimExpr:
    """The disjunction of the conditions (`tir.any`); false where there are none."""
    return reduce(logical_or, conditions, const(False))


def integers(name: str, *given: PrimExpr) -> None:
    """Refuse operands of a float dtype.

    Raises:
        MLCError: one of them is a float.
    """
    for x in given:
        if x.dtype.is_float:
            raise MLCError(f"{name} needs integers, got {x.dtype}")


_BOTH = "two integers, in their common dtype.\n\nRaises:\n    MLCError: one of them is a float."
_SHIFTED = (
    "an integer by 0 to bits-1, in their common dtype; of a signed one arithmetic. "
    "A constant b is in that range; by any other number only the sign is left, as in NumPy.\n\n"
    "Raises:\n    MLCError: one of them is a float, or a constant b is out of range."
)


def _bitwise(
    name: str, fn: Callable[[Any, Any], Any], shifts: bool = False
) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = numbers(a, b)
        integers(name, a)
        if shifts and isinstance(b, IntImm) and not 0 <= b.value < a.dtype.bits:
            raise MLCError(f"{name} of {a.dtype} by {b.value} bits is out of range")
        return _folded(fn, lambda a, b: e.Call(a.dtype, f"tir.{name}", (a, b)), a, b)

    build.__name__ = name
    build.__doc__ = f"{name} of {_SHIFTED if shifts else _BOTH}"
    return build


bitwise_and = _bitwise("bitwise_and", operator.and_)
bitwise_or = _bitwise("bitwise_or", operator.or_)
bitwise_xor = _bitwise("bitwise_xor", operator.xor)
shift_left = _bitwise("shift_left", operator.lshift, shifts=True)
shift_right = _bitwise("shift_right", operator.rshift, shifts=True)


def bitwise_not(a: Any) -> PrimExpr:
    """All bits of an integer flipped, in its dtype; of a bool, use `logical_not`.

    Raises:
        MLCError: a is a float.
    """
    a = as_expr(a)
    integers("bitwise_not", a)
    if isinstance(a, IntImm):
        return wrapped(~a.value, a.dtype)
    return e.Call(a.dtype, "tir.bitwise_not", (a,))


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """condition ? true_value : false_value, evaluating only the one that is chosen.

    The two values get their common dtype (see `add`), as `te.Select` does not.

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    true_value, false_value = match_dtypes(true_value, false_value)
    condition = as_expr(condition)
    if isinstance(condition, IntImm):
        return true_value if condition.value else false_value
    args = (condition, true_value, false_value)
    return e.Call(true_value.dtype, "tir.if_then_else", args)


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """condition ? true_value : false_value, evaluating both."""
    true_value, false_value = match_dtypes(true_value, false_value)
    condition = as_expr(condition)
    known = condition
    if isinstance(known, e.Broadcast) and known.dtype.lanes == true_value.dtype.lanes:
        known = known.value  # the same in every lane
    if isinstance(known, IntImm):
        return true_value if known.value else false_value
    return e.Select(condition, true_value, false_value)
