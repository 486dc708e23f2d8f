"""Struct info: what is known of a value at compile time, its type and its symbolic shape.

StructInfo = Tensor(shape, dtype, ndim) | Shape(values) | Prim(dtype) | Tuple(fields)
           | Func(params, ret) | Object
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, node
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr


class StructInfo(Node):
    """Base of all struct infos."""

    __slots__ = ()


@node
class ObjectStructInfo(StructInfo):
    """Any value."""


@node
class PrimStructInfo(StructInfo):
    """A scalar of a dtype, whose value may be known symbolically."""

    dtype: DType
    value: PrimExpr | None = None


@node
class ShapeStructInfo(StructInfo):
    """A shape: its dimensions (int64), or only how many (`ndim`, -1 when that is unknown too)."""

    values: tuple[PrimExpr, ...] | None = None
    ndim: int = -1


@node
class TensorStructInfo(StructInfo):
    """A tensor: shape (a ShapeExpr, a Var that holds a shape, or None), dtype (None: unknown),
    ndim.

    `ndim` is -1 when the rank is unknown; where the shape is a ShapeExpr, it is its length.
    """

    shape: Any = None
    dtype: DType | None = None
    ndim: int = -1
    vdevice: Any = None

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """The dimensions, or None where they are not known one by one."""
        return getattr(self.shape, "values", None)


@node
class TupleStructInfo(StructInfo):
    """A tuple, field by field."""

    fields: tuple[StructInfo, ...]


@node
class FuncStructInfo(StructInfo):
    """A function: parameters (None: unknown), result, purity."""

    params: tuple[StructInfo, ...] | None
    ret: StructInfo
    purity: bool = True
