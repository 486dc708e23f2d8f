"""Constructors of scalar expressions: match the dtypes, fold constants and neutral elements.

`add(x, 0) -> x`, `multiply(IntImm(3), IntImm(4)) -> 12`, `add(int32, int64) -> int64`.
Anything cleverer is `mlcnb.arith`.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError, UnsupportedDtypeError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import FloatImm, IntImm, PrimExpr


def const(value: Any, to: str | DType | None = None) -> PrimExpr:
    """A constant of dtype `to` (default: int32 for int, float32 for float, bool for bool).

    Raises:
        IntegerRangeError: an integer dtype has no such number.
        ArgumentError: the value is no number.
    """
    if isinstance(value, PrimExpr):
        return value if to is None else cast(to, value)
    if isinstance(value, str):
        return e.StringImm(value)
    if to is None:
        to = _default_dtype(value)
    kind = dtype(str(to))
    if kind.lanes != 1:
        return e.Broadcast(const(value, kind.element), lanes_of(kind))
    try:
        if kind.is_float:
            return FloatImm(kind, round_to(float(value), kind))
        return IntImm(kind, int(bool(value)) if kind.is_bool else int(value))
    except (TypeError, ValueError, OverflowError) as error:  # an array, nan as an integer
        raise ArgumentError(
            f"{type(value).__name__} {reprlib.repr(value)} is no {kind}: {error}"
        ) from error


def wrapped(value: int, to: str | DType) -> PrimExpr:
    """`value` reduced to the range of an integer dtype, as arithmetic in that dtype has it."""
    kind = dtype(str(to))
    return const(wrap(value, kind.element), kind)


def _default_dtype(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
    if isinstance(value, float):
        return "float32"
    found = getattr(value, "dtype", None)
    if found is None:
        raise MLCError(f"{type(value).__name__} {value!r} is no scalar constant")
    return str(found)


def round_to(value: float, kind: DType) -> float:
    """`value` as the nearest number of float dtype `kind`."""
    return value if kind == "float64" else float(kind.numpy.type(value))


def wrap(value: int, kind: DType) -> int:
    """`value` reduced to the range of integer dtype `kind` (two's complement)."""
    if kind.is_bool:
        return int(bool(value))
    if kind.is_handle or kind.min_value <= value <= kind.max_value:
        return value
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if value > kind.max_value else value


def as_expr(value: Any, like: DType | None = None) -> PrimExpr:
    """`value` as an expression; a Python number takes dtype `like` where that fits."""
    if isinstance(value, PrimExpr):
        return value
    if hasattr(value, "as_prim_expr"):  # what stands for an expression: a reduce axis
        return value.as_prim_expr()
    if like is None or isinstance(value, str):
        return const(value)
    if isinstance(value, float) and not like.is_float:
        return const(value, "float32")
    return const(value, like)


def match_dtypes(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in one dtype: numbers follow the other side, wider wins, lanes broadcast."""
    if not isinstance(a, PrimExpr):
        a = as_expr(a, b.dtype if isinstance(b, PrimExpr) else None)
    b = as_expr(b, a.dtype)
    if a.dtype == b.dtype:
        return a, b
    lanes = a.dtype.lanes if a.dtype.lanes != 1 else b.dtype.lanes
    to = _common(a.dtype.element, b.dtype.element)
    return _lift(cast(to, a), lanes), _lift(cast(to, b), lanes)


def _numbers(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both operands of arithmetic: `match_dtypes`, and no pointer, whatever it points to."""
    a, b = match_dtypes(a, b)
    if a.dtype.is_handle:
        raise MLCError(
            f"no arithmetic with the pointer {a if isinstance(a, e.Var) else b}",
            hint="T.address_of(A[i]) or A.access_ptr(..., offset=i) points elsewhere in a buffer",
        )
    return a, b


def _lift(x: PrimExpr, lanes: int) -> PrimExpr:
    if x.dtype.lanes == lanes:
        return x
    if x.dtype.lanes != 1:
        raise MLCError(f"vectors of {x.dtype.lanes} and {lanes} lanes do not match")
    return e.Broadcast(x, lanes_of(x.dtype.with_lanes(lanes)))


def lanes_of(kind: DType) -> Any:
    """The lanes of a vector dtype as Ramp and Broadcast hold them: a number, or vscale * k."""
    if kind.lanes > 0:
        return kind.lanes
    return multiply(e.Call(dtype("int32"), "tir.vscale", ()), -kind.lanes)


def _common(a: DType, b: DType) -> str:
    if a == b:
        return a
    if a.is_handle or b.is_handle:
        raise MLCError(f"no arithmetic between {a} and {b}")
    if a.is_float or b.is_float:
        floats = [d for d in (a, b) if d.is_float]
        return max(floats, key=lambda d: d.bits)
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits != b.bits:
        return max((a, b), key=lambda d: d.bits)
    return a if a.is_uint else b  # same width, mixed sign: unsigned, as in C


def cast(to: str | DType, value: Any) -> PrimExpr:
    """`value` converted to `to` (a spelling; lanes follow the value); constants are folded."""
    value = as_expr(value)
    kind = dtype(str(to))
    if kind.lanes == 1:
        kind = kind.with_lanes(value.dtype.lanes)
    if value.dtype == kind:
        return value
    if kind.lanes != 1 and value.dtype.lanes == 1:
        return e.Broadcast(cast(kind.element, value), lanes_of(kind))
    match value:
        case IntImm(v) if kind.is_float:
            return const(v, kind)
        case IntImm(v) if not kind.is_handle:
            return wrapped(v, kind)
        case FloatImm(v) if kind.is_float:
            return const(v, kind)
        case FloatImm(v) if kind.is_bool:
            return const(v != 0, kind)
        case FloatImm(v) if kind.is_integer and math.isfinite(v):
            if kind.min_value <= math.trunc(v) <= kind.max_value:
                return const(math.trunc(v), kind)
        case e.Broadcast(inner, lanes) if kind.lanes == value.dtype.lanes:
            return e.Broadcast(cast(kind.element, inner), lanes)
    return e.Cast(kind, value)


def fitted(to: str | DType, value: Any) -> PrimExpr:
    """`value` in the integer dtype `to`: what counts, such as a size, never wraps around.

    Raises:
        IntegerRangeError: a constant that `to` cannot hold.
    """
    kind = dtype(str(to))
    value = as_expr(value, kind)
    return const(value.value, kind) if isinstance(value, IntImm) else cast(kind, value)


def is_const(x: Any, value: float | None = None) -> bool:
    """True for an IntImm or FloatImm (or a broadcast of one), of that value if given."""
    if isinstance(x, e.Broadcast):
        x = x.value
    return isinstance(x, IntImm | FloatImm) and (value is None or x.value == value)


def _fold(a: PrimExpr, b: PrimExpr, fn: Callable[[Any, Any], Any]) -> PrimExpr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        value = fn(a.value, b.value)
        if a.dtype.is_int and not a.dtype.holds(value):
            return None  # the kernel wraps around; a size or an offset may not
        return wrapped(value, a.dtype)
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return const(_rounded(a, b, fn), a.dtype)
    return None


def _pick(folded: PrimExpr | None, otherwise: PrimExpr) -> PrimExpr:
    """`folded` where there is one (a folded 0 is one, though it is false)."""
    return otherwise if folded is None else folded


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
    a, b = _numbers(a, b)
    if not a.dtype.is_float:
        if is_const(a, 0):
            return b
        if is_const(b, 0):
            return a
    return _pick(_fold(a, b, operator.add), e.Add(a, b))


def subtract(a: Any, b: Any) -> PrimExpr:
    """a - b, in the common dtype of both (see `add`).

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    a, b = _numbers(a, b)
    if is_const(b, 0) and not a.dtype.is_float:
        return a
    return _pick(_fold(a, b, operator.sub), e.Sub(a, b))


def multiply(a: Any, b: Any) -> PrimExpr:
    """a * b, in the common dtype of both (see `add`).

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    a, b = _numbers(a, b)
    if is_const(a, 1):
        return b
    if is_const(b, 1):
        return a
    if not a.dtype.is_float and (is_const(a, 0) or is_const(b, 0)):
        return a if is_const(a, 0) else b
    return _pick(_fold(a, b, operator.mul), e.Mul(a, b))


def neg(a: Any) -> PrimExpr:
    """-a"""
    a = as_expr(a)
    if isinstance(a, FloatImm):
        return const(-a.value, a.dtype)
    zero = const(-0.0 if a.dtype.is_float else 0, a.dtype)
    return subtract(zero, a)


def div(a: Any, b: Any) -> PrimExpr:
    """a / b for floats.

    The common dtype is that of `add`.

    Raises:
        MLCError: integer operands, which have several divisions.
    """
    a, b = _numbers(a, b)
    if not a.dtype.is_float:
        raise MLCError(
            "`/` between integers is ambiguous", hint="use // (floordiv), or tir.truncdiv"
        )
    if is_const(b, 1):
        return a
    if is_const(b) and not is_const(b, 0):
        return _pick(_fold(a, b, operator.truediv), e.Div(a, b))
    return e.Div(a, b)


def _int_division(a: Any, b: Any, name: str) -> tuple[PrimExpr, PrimExpr]:
    a, b = _numbers(a, b)
    if is_const(b, 0):
        raise MLCError(f"{name} by zero")
    return a, b


def truncdiv(a: Any, b: Any) -> PrimExpr:
    """Integer a / b rounding towards zero, as in C.

    The common dtype is that of `add`.

    Raises:
        MLCError: b is the constant 0.
    """
    a, b = _int_division(a, b, "truncdiv")
    if is_const(b, 1):
        return a
    return _pick(_fold(a, b, _trunc_div), e.Div(a, b))


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncmod(a: Any, b: Any) -> PrimExpr:
    """Remainder of truncdiv: of the sign of a, in the common dtype of both.

    Raises:
        MLCError: b is the constant 0.
    """
    a, b = _int_division(a, b, "truncmod")
    return _pick(_fold(a, b, lambda x, y: x - _trunc_div(x, y) * y), e.Mod(a, b))


def floordiv(a: Any, b: Any) -> PrimExpr:
    """a // b rounding towards minus infinity.

    Of floats too, in their dtype: floor(a / b).

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = _numbers(a, b)
    if a.dtype.is_float:
        return e.Call(a.dtype, "tir.floor", (div(a, b),))
    a, b = _int_division(a, b, "floordiv")
    if is_const(b, 1) or is_const(a, 0):
        return a
    return _pick(_fold(a, b, operator.floordiv), e.FloorDiv(a, b))


def floormod(a: Any, b: Any) -> PrimExpr:
    """a - floordiv(a, b) * b: of the sign of b, in the common dtype of both.

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = _numbers(a, b)
    if a.dtype.is_float:
        return a - floordiv(a, b) * b
    a, b = _int_division(a, b, "floormod")
    if is_const(a, 0):
        return a
    if is_const(b, 1):
        return const(0, a.dtype)
    return _pick(_fold(a, b, operator.mod), e.FloorMod(a, b))


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """a / b rounding towards plus infinity, for b > 0.

    In the common dtype of both, where a + b - 1 has to fit.

    Raises:
        MLCError: b is the integer constant 0.
    """
    a, b = match_dtypes(a, b)
    return floordiv(a + (b - 1), b)


def minimum(a: Any, b: Any) -> PrimExpr:
    """The smaller of a and b (`tir.min`)."""
    a, b = _numbers(a, b)
    if a is b:
        return a
    folded = None if a.dtype.is_float else _fold(a, b, min)
    return _pick(folded, e.Min(a, b))


def maximum(a: Any, b: Any) -> PrimExpr:
    """The larger of a and b (`tir.max`)."""
    a, b = _numbers(a, b)
    if a is b:
        return a
    folded = None if a.dtype.is_float else _fold(a, b, max)
    return _pick(folded, e.Max(a, b))


_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    e.EQ: operator.eq,
    e.NE: operator.ne,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
}


def _compare(kind: type, a: Any, b: Any) -> PrimExpr:
    a, b = match_dtypes(a, b)
    if isinstance(a, IntImm | FloatImm) and isinstance(b, IntImm | FloatImm):
        return const(_COMPARE[kind](a.value, b.value), "bool")
    return kind(a, b)


def equal(a: Any, b: Any) -> PrimExpr:
    """a == b"""
    return _compare(e.EQ, a, b)


def not_equal(a: Any, b: Any) -> PrimExpr:
    """a != b"""
    return _compare(e.NE, a, b)


def less(a: Any, b: Any) -> PrimExpr:
    """a < b"""
    return _compare(e.LT, a, b)


def less_equal(a: Any, b: Any) -> PrimExpr:
    """a <= b"""
    return _compare(e.LE, a, b)


def greater(a: Any, b: Any) -> PrimExpr:
    """a > b"""
    return _compare(e.GT, a, b)


def greater_equal(a: Any, b: Any) -> PrimExpr:
    """a >= b"""
    return _compare(e.GE, a, b)


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
    result: PrimExpr = const(True)
    for condition in conditions:
        result = logical_and(result, condition)
    return result


def any_of(*conditions: Any) -> PrimExpr:
    """The disjunction of the conditions (`tir.any`); false where there are none."""
    result: PrimExpr = const(False)
    for condition in conditions:
        result = logical_or(result, condition)
    return result


def integers(name: str, *given: PrimExpr) -> None:
    """Refuse operands of a float dtype.

    Raises:
        MLCError: one of them is a float.
    """
    for x in given:
        if x.dtype.is_float:
            raise MLCError(f"{name} needs integers, got {x.dtype}")


def _bitwise(name: str, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = _numbers(a, b)
        integers(name, a)
        return _pick(_fold(a, b, fn), e.Call(a.dtype, f"tir.{name}", (a, b)))

    build.__name__ = name
    build.__doc__ = (
        f"{name} of two integers, in their common dtype.\n\nRaises:\n"
        "    MLCError: one of them is a float."
    )
    return build


bitwise_and = _bitwise("bitwise_and", operator.and_)
bitwise_or = _bitwise("bitwise_or", operator.or_)
bitwise_xor = _bitwise("bitwise_xor", operator.xor)


def _shift(name: str, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = _numbers(a, b)
        integers(name, a)
        if isinstance(b, IntImm) and not 0 <= b.value < a.dtype.bits:
            raise MLCError(f"{name} of {a.dtype} by {b.value} bits is out of range")
        return _pick(_fold(a, b, fn), e.Call(a.dtype, f"tir.{name}", (a, b)))

    build.__name__ = name
    build.__doc__ = (
        f"{name} of an integer by 0 to bits-1, in their common dtype; of a signed one arithmetic. "
        "A constant b is in that range; by any other number only the sign is left, as in NumPy.\n\n"
        "Raises:\n    MLCError: one of them is a float, or a constant b is out of range."
    )
    return build


shift_left = _shift("shift_left", operator.lshift)
shift_right = _shift("shift_right", operator.rshift)


def bitwise_not(a: Any) -> PrimExpr:
    """All bits of an integer flipped.

    In its dtype; of a bool, use `logical_not`.

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
    if isinstance(condition, IntImm):
        return true_value if condition.value else false_value
    return e.Select(condition, true_value, false_value)


def min_value(kind: str | DType) -> PrimExpr:
    """The smallest finite number of a dtype (-inf is not it).

    Raises:
        UnsupportedDtypeError: there is no such dtype.
    """
    kind = dtype(str(kind))
    return const(_finfo(kind)[0] if kind.is_float else kind.min_value, kind)


def max_value(kind: str | DType) -> PrimExpr:
    """The largest finite number of a dtype.

    Raises:
        UnsupportedDtypeError: there is no such dtype.
    """
    kind = dtype(str(kind))
    return const(_finfo(kind)[1] if kind.is_float else kind.max_value, kind)


def infinity(kind: str | DType) -> PrimExpr:
    """Plus infinity of a float dtype.

    Raises:
        UnsupportedDtypeError: a dtype that has none.
    """
    if not dtype(str(kind)).is_float:
        raise UnsupportedDtypeError(f"{kind} has no infinity", hint="max_value is its largest")
    return const(math.inf, kind)


def _finfo(kind: DType) -> tuple[float, float]:
    if kind.bits >= 16 and kind.code == "float":
        import numpy as np

        info = np.finfo(kind.numpy)
    else:
        import ml_dtypes

        info = ml_dtypes.finfo(kind.numpy)
    return float(info.min), float(info.max)


def as_int(x: Any) -> int | None:
    """The Python int behind an int or IntImm, or None for anything symbolic."""
    if isinstance(x, IntImm):
        return x.value
    return x if isinstance(x, int) else None
