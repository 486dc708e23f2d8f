"""Scalar expressions built as they are written: dtypes are matched, nothing is folded.

`prim_ops` folds `x + 0` to `x`; text must read back as what was printed, so here it stays an Add.
Two Python numbers are still computed by Python (`4 * 32` is 128): they are no nodes of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.script import intrinsics, operators

_dtype_of = dtype


def as_expr(value: Any, int_dtype: str = "int32") -> PrimExpr:
    """A value as an expression: a Python int has dtype `int_dtype` (int64 where it is too big)."""
    if isinstance(value, PrimExpr):
        return value
    lift = getattr(value, "as_prim_expr", None)
    if lift is not None:
        return lift()
    if isinstance(value, int) and not isinstance(value, bool):
        kind = dtype(int_dtype)
        return p.const(value, kind if kind.holds(value) else "int64")
    return p.const(value)


def matched(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in one dtype; a Python number takes that of the other side."""
    a, b = (getattr(x, "as_prim_expr", lambda x=x: x)() for x in (a, b))
    if not (isinstance(a, PrimExpr) or isinstance(b, PrimExpr)):
        return p.match_dtypes(as_expr(a), as_expr(b))
    return p.match_dtypes(a, b)


def binary(kind: type) -> Callable[[Any, Any], PrimExpr]:
    """The constructor of a two-operand node, dtypes matched."""

    def build(a: Any, b: Any) -> PrimExpr:
        a, b = matched(a, b)
        return kind(a, b)

    build.__name__ = kind.__name__
    build.__doc__ = kind.__doc__
    return build


def logical(kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`and` or `or`; beside a vector of conditions one condition holds for all lanes."""
    if a.dtype.lanes != b.dtype.lanes and a.dtype.is_bool and b.dtype.is_bool:
        a, b = p.match_dtypes(a, b)
    return kind(a, b)


def _divide(a: Any, b: Any) -> PrimExpr:
    a, b = matched(a, b)
    if not a.dtype.is_float:
        raise MLCError("`/` between integers is ambiguous", hint="use // or T.truncdiv")
    return e.Div(a, b)


def _integer_division(kind: type, on_floats: Callable) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        a, b = matched(a, b)
        return on_floats(a, b) if a.dtype.is_float else kind(a, b)

    return build


def _bitwise(name: str, logical: type | None = None) -> Callable[..., PrimExpr]:
    def build(a: Any, b: Any, dtype: Any = None) -> PrimExpr:
        a, b = matched(a, b)
        if a.dtype.is_float:
            raise MLCError(f"{name} needs integers, got {a.dtype}")
        if dtype not in (None, a.dtype):
            raise MLCError(f"{name} of {a.dtype} is {a.dtype}, not {dtype}")
        return e.Call(a.dtype, f"tir.{name}", (a, b))

    return build


def negative(a: PrimExpr) -> PrimExpr:
    """0 - a"""
    zero = p.const(-0.0 if a.dtype.is_float else 0, a.dtype)
    return e.Sub(zero, a)


def invert(a: PrimExpr) -> PrimExpr:
    """All bits of a flipped."""
    return e.Call(a.dtype, "tir.bitwise_not", (a,))


def cast(kind: str | DType, value: Any) -> PrimExpr:
    """`value` as `kind`: a number becomes a constant, an expression a Cast."""
    to = dtype(str(kind))
    lift = getattr(value, "as_prim_expr", None)
    if lift is not None:
        value = lift()
    if not isinstance(value, PrimExpr):
        _check_range(value, to)
        return p.const(value, to)
    lanes = value.dtype.lanes
    return e.Cast(to.with_lanes(lanes) if to.lanes == 1 and lanes != 1 else to, value)


def _check_range(value: Any, kind: DType) -> None:
    """A number of the text is one of its dtype: nothing wraps or becomes infinite unseen."""
    element = kind.element
    if isinstance(value, float) and element.is_float:
        too_big = math.isfinite(value) and abs(value) > 100 and abs(value) > _largest(element)
    else:
        too_big = isinstance(value, int) and element.is_integer and not element.holds(value)
    if too_big:
        raise MLCError(f"{value!r} is no {element}")


def _largest(kind: DType) -> float:
    """What still rounds to the largest finite number, nearly."""
    return float(p.max_value(kind)) * (1 + 1e-7)  # type: ignore[arg-type]


#: Python's operators by their class in `ast`
OPERATORS: dict[str, Callable[[Any, Any], PrimExpr]] = {
    **{k: binary(x.makes) for k, x in operators.OPERATORS.items() if isinstance(x.makes, type)},
    **{kind: _bitwise(name) for name, kind in operators.BITS.items()},
    "Div": _divide,
    "FloorDiv": _integer_division(e.FloorDiv, p.floordiv),
    "Mod": _integer_division(e.FloorMod, p.floormod),
}


def intrinsic(name: str, *args: Any, dtype: Any = None) -> PrimExpr:
    """`T.name(args)` for an intrinsic whose dtype follows from the arguments.

    `dtype=`, which older text says, counts where it does not follow.

    Raises:
        MLCError: the dtype does not follow; `T.call_intrin` says it.
    """
    name = intrinsics.SYNONYMS.get(name, name)
    exprs = tuple(as_expr(a) for a in args)
    found = intrinsics.result_dtype(name, exprs)
    if found is None and dtype is not None:
        found = _dtype_of(str(getattr(dtype, "dtype", dtype)))
    if found is None:
        raise MLCError(
            f"the dtype of T.{name}(…) does not follow from its {len(exprs)} arguments",
            hint=f'say it: T.call_intrin("float32", "tir.{name}", …)',
        )
    return e.Call(found, f"tir.{name}", exprs)
