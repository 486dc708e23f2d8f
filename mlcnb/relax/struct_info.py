"""Struct info: what is known of a value at compile time, its type and its symbolic shape.

StructInfo = Tensor(shape, dtype, ndim) | Shape(values) | Prim(dtype) | Tuple(fields)
           | Func(params, ret) | Object
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import Node, binder, node
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, Var


class StructInfo(Node):
    """Base of all struct infos. Dtypes may be given as strings, shapes as tuples or lists."""

    __slots__ = ()

    def is_base_of(self, derived: StructInfo) -> bool:
        """True if every value of `derived` is known to be one of this."""
        from mlcnb.relax.analysis.struct_info import BaseCheckResult, struct_info_base_check

        return struct_info_base_check(self, derived) is BaseCheckResult.PASS


def _plain(info: StructInfo, field: str, kind: type, make: Callable[[Any], Any]) -> None:
    """Put `make(value)` into a field that was given as plain Python."""
    value = getattr(info, field)
    if type(value) is kind or (kind is tuple and isinstance(value, tuple)):
        object.__setattr__(info, field, make(value))


def _shape(dims: Any) -> Any:
    from mlcnb.relax.expr import shape_expr

    return shape_expr(dims)


def _dims(dims: Any) -> tuple[PrimExpr, ...]:
    values: tuple[PrimExpr, ...] = _shape(dims).values
    return values


@node
class ObjectStructInfo(StructInfo):
    """Any value."""


@node
class PrimStructInfo(StructInfo):
    """A scalar of a dtype, whose value may be known symbolically (its dtype is the scalar's)."""

    dtype: DType = None  # type: ignore[assignment]
    value: PrimExpr | None = None

    def __post_init__(self) -> None:
        if self.dtype is None:
            object.__setattr__(self, "dtype", getattr(self.value, "dtype", dtype("void")))
        _plain(self, "dtype", str, dtype)


@node
class ShapeStructInfo(StructInfo):
    """A shape: its dimensions (int64), or only how many (`ndim`, -1 when that is unknown too)."""

    values: tuple[PrimExpr, ...] | None = None
    ndim: int = -1

    def __post_init__(self) -> None:
        _plain(self, "values", list, _dims)
        if type(self.values) is tuple:
            if not all(isinstance(v, PrimExpr) for v in self.values):
                object.__setattr__(self, "values", _dims(self.values))
            object.__setattr__(self, "ndim", len(self.values))


@node
class TensorStructInfo(StructInfo):
    """A tensor: shape (a ShapeExpr, a Var that holds a shape, or None), dtype (None: unknown),
    ndim.

    `ndim` is -1 when the rank is unknown; where the shape is known, it is its length. The dtypes
    "" and "void" are TVM's words for one that is not known. Of a Var whose dimensions are known,
    the shape is those: Tensor(s, …) is Tensor((2, 3), …) where s is Shape([2, 3]).
    """

    shape: Any = None
    dtype: DType | None = None
    vdevice: Any = None
    ndim: int = -1

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype in ("", "void"):
            object.__setattr__(self, "dtype", None)
        if isinstance(self.shape, str):
            raise ArgumentError(
                f"TensorStructInfo: {self.shape!r} is no shape",
                hint='the shape first, then the dtype: TensorStructInfo((2, 3), "float32")',
            )
        _plain(self, "dtype", str, dtype)
        _plain(self, "shape", list, _shape)
        _plain(self, "shape", tuple, _shape)
        known = getattr(getattr(self.shape, "struct_info", None), "values", None)
        if known is not None and getattr(self.shape, "values", None) is None:
            object.__setattr__(self, "shape", _shape(known))
        if self.shape is None:
            return
        count = getattr(self.shape.struct_info, "ndim", -1)
        if self.ndim < 0:
            object.__setattr__(self, "ndim", count)
        elif count not in (-1, self.ndim):
            raise ArgumentError(
                f"TensorStructInfo: a shape of {count} dimensions with ndim={self.ndim}",
                hint="leave out ndim where there is a shape",
            )

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """The dimensions, or None where they are not known one by one."""
        return getattr(self.shape, "values", None)


@node
class TupleStructInfo(StructInfo):
    """A tuple, field by field."""

    fields: tuple[StructInfo, ...]

    def __post_init__(self) -> None:
        _plain(self, "fields", list, tuple)


def parts_of(info: Any) -> tuple[Any, ...]:
    """The struct infos of a tuple's fields; of anything else its own alone: what a call gives."""
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


@node
class FuncStructInfo(StructInfo):
    """A function: parameters (None: unknown), result, purity."""

    params: tuple[StructInfo, ...] | None = binder()
    ret: StructInfo = None  # type: ignore[assignment]
    purity: bool = True

    def __post_init__(self) -> None:
        _plain(self, "params", list, tuple)

    @staticmethod
    def opaque_func(*, ret: StructInfo | None = None, purity: bool = False) -> FuncStructInfo:
        """A function of which no parameters are known, nor what it gives unless `ret` tells."""
        return FuncStructInfo(None, ret or ObjectStructInfo(), purity)

    @property
    def derive_func(self) -> None:
        """What derives the result's struct info: nothing does, calls say it themselves."""
        return None


def told_by(infos: Sequence[StructInfo]) -> StructInfo:
    """The struct info of a result that a list tells: of one it is that, else a tuple of them."""
    return infos[0] if len(infos) == 1 else TupleStructInfo(tuple(infos))


def describe(info: Any) -> str:
    """A struct info in a few words, for messages: `Tensor((1, n), float32)`."""
    if isinstance(info, TensorStructInfo):
        if info.dims is None:
            rank = f"ndim={info.ndim}" if info.ndim >= 0 else "unknown shape"
            return f"Tensor({rank}, {info.dtype or 'unknown dtype'})"
        return f"Tensor({_told_dims(info.dims)}, {info.dtype or 'unknown dtype'})"
    if isinstance(info, ShapeStructInfo):
        return "Shape" if info.values is None else f"Shape({_told_dims(info.values)})"
    if isinstance(info, TupleStructInfo):
        return f"Tuple({', '.join(map(describe, info.fields))})"
    if isinstance(info, PrimStructInfo):
        return f"a scalar of {info.dtype}"
    return "a function" if isinstance(info, FuncStructInfo) else "an object"


def _told_dims(values: tuple[PrimExpr, ...]) -> str:
    inside = ", ".join(_told_dim(v) for v in values)
    return f"({inside},)" if len(values) == 1 else f"({inside})"


def _told_dim(value: PrimExpr) -> str:
    if isinstance(value, Var):
        return value.name
    text = str(getattr(value, "value", value))
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", text)
