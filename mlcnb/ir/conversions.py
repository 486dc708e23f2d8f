"""Constants, and the dtypes of expressions: what `mlcnb.ir.prim_ops` starts from.

`const(3)`, `cast("float32", x)`, `match_dtypes(i, 1) -> (i, IntImm(1))`, `as_int(IntImm(3)) -> 3`.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

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
    kind = to if type(to) is DType else dtype(str(to))
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
    kind = to if type(to) is DType else dtype(str(to))
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
    if kind == "float64":
        return value
    with np.errstate(over="ignore"):  # what is too large becomes infinity, as in every conversion
        return float(kind.numpy.type(value))


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


def numbers(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
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
    scale = e.Call(dtype("int32"), "tir.vscale", ())
    return scale if kind.lanes == -1 else e.Mul(scale, const(-kind.lanes))


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


#: from here on, and below minus that, an integer without a dtype has none
_WIDE = 1 << 63


def cast(to: str | DType, value: Any) -> PrimExpr:
    """`value` converted to `to` (a spelling; lanes follow the value); constants are folded."""
    kind = to if type(to) is DType else dtype(str(to))
    if type(value) is int and kind.is_integer and kind.lanes == 1 and -_WIDE <= value < _WIDE:
        return wrapped(value, kind)
    value = as_expr(value)
    if kind.lanes == 1 != value.dtype.lanes:
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


def product_of(factors: Iterable[PrimExpr], one: PrimExpr) -> PrimExpr:
    """`one` times all of them, in order."""
    return reduce(operator.mul, factors, one)
