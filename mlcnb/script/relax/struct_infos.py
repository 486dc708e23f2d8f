"""The types of R: `R.Tensor((n, 4), "float32")`, `R.Shape`, `R.Tuple`, `R.Callable` …

Each works as an annotation with or without parentheses and gives a struct info. Strings among the
dimensions stay `DimString`s until the parser has read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.dtype import dtype as _dtype
from mlcnb.ir.expr import IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax import struct_info as si
from mlcnb.relax.expr import Expr, ShapeExpr
from mlcnb.script.frames import DimString, NewVar
from mlcnb.script.tir.dtypes import DTypeWord


def dim(value: Any) -> PrimExpr:
    """One dimension: an int, an expression, a string, a TypeVar (0.27)."""
    if isinstance(value, str):
        return DimString(value)
    if hasattr(value, "__constraints__"):
        return DimString(value.__name__)
    if not isinstance(value, PrimExpr | int):
        raise MLCError(f"a dimension is an int or a symbolic expression, not {value!r}")
    return p.cast("int64", value)


def _kind(given: Any) -> DType | None:
    if given is None or given == "":
        return None
    return _dtype(str(getattr(given, "dtype", given)))


class TypeWord:
    """A type of R; used without parentheses, it is what `default` says."""

    def __init__(self, name: str, make: Callable[..., si.StructInfo], default: Any) -> None:
        self.__name__ = name
        self.__doc__ = make.__doc__
        self.make = make
        self.default: si.StructInfo = default

    def __call__(self, *args: Any, **options: Any) -> si.StructInfo:
        """The struct info of these arguments."""
        return self.make(*args, **options)

    def __repr__(self) -> str:
        return f"R.{self.__name__}"


def _tensor(
    shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1
) -> si.TensorStructInfo:
    """A tensor: shape (dimensions, or a variable that holds a shape), dtype, or only `ndim`."""
    if isinstance(shape, str | DTypeWord) and dtype is None:
        shape, dtype = None, shape
    ndim = ndim.value if isinstance(ndim, IntImm) else ndim
    if not isinstance(ndim, int) or ndim < -1:
        raise MLCError(f"ndim is how many dimensions, or -1 (not known), not {ndim!r}")
    if shape is None:
        return si.TensorStructInfo(None, _kind(dtype), vdevice, ndim)
    if isinstance(shape, Expr):
        known = getattr(shape.struct_info, "ndim", -1)
        return si.TensorStructInfo(shape, _kind(dtype), vdevice, known if ndim == -1 else ndim)
    dims = tuple(dim(d) for d in _listed(shape, "R.Tensor((4,))"))
    if ndim not in (-1, len(dims)):
        raise MLCError(f"a shape of {len(dims)} dimensions has not ndim={ndim}")
    return si.TensorStructInfo(ShapeExpr(dims), _kind(dtype), vdevice)


def _listed(value: Any, example: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise MLCError("a shape is a tuple or a list", hint=example)
    return value


def _shape(values: Any = None, ndim: int = -1) -> si.ShapeStructInfo:
    """A shape as a value: its dimensions, or only how many."""
    if values is None:
        return si.ShapeStructInfo(None, ndim)
    dims = tuple(dim(d) for d in _listed(values, "R.Shape([4])"))
    return si.ShapeStructInfo(dims, len(dims))


def _prim(dtype: Any = None, value: Any = None) -> si.PrimStructInfo:
    """A scalar of a dtype, or of a known value."""
    kind = _kind(dtype)
    if value is not None:
        found = _scalar_value(value, kind)
        return si.PrimStructInfo(found.dtype, found)
    if kind is None:
        raise MLCError("a scalar type needs a dtype or a value", hint='R.Prim("int64")')
    return si.PrimStructInfo(kind)


def _scalar_value(value: Any, kind: DType | None) -> PrimExpr:
    """The value of a scalar type: a number, an expression, a string. Whole numbers are int64."""
    if isinstance(value, str):
        return DimString(value, kind)
    if isinstance(value, Expr) or not isinstance(value, PrimExpr | int | float):
        raise MLCError(
            f"the value of a scalar type is a number, not {kind_of(value)}",
            hint='R.Prim(value="n")',
        )
    default = "float64" if isinstance(value, float) else "int64"
    found = (
        value
        if isinstance(value, PrimExpr)
        else p.const(value, None if isinstance(value, bool) else kind or default)
    )
    if kind is not None and found.dtype != kind:
        raise MLCError(f"the value of R.Prim({str(kind)!r}) is of {found.dtype}: {found}")
    return found


def _tuple(*fields: Any) -> si.TupleStructInfo:
    """A tuple, field by field."""
    if len(fields) == 1 and isinstance(fields[0], list | tuple):
        fields = tuple(fields[0])
    return si.TupleStructInfo(tuple(map(info, fields)))


def _callable(
    params: Any = None, ret: Any = None, purity: bool = True, derive_func: Any = None
) -> si.FuncStructInfo:
    """A function: types of the parameters, of the result, and whether it is pure."""
    given = params if params is None or isinstance(params, list | tuple) else [params]
    infos = None if given is None else tuple(map(info, given))
    return si.FuncStructInfo(infos, si.ObjectStructInfo() if ret is None else info(ret), purity)


def _object() -> si.ObjectStructInfo:
    """Any value."""
    return si.ObjectStructInfo()


Tensor = TypeWord("Tensor", _tensor, si.TensorStructInfo())
Shape = TypeWord("Shape", _shape, si.ShapeStructInfo())
Prim = TypeWord("Prim", _prim, None)
Tuple = TypeWord("Tuple", _tuple, si.TupleStructInfo(()))
Callable_ = TypeWord("Callable", _callable, si.FuncStructInfo(None, si.ObjectStructInfo()))
Object = TypeWord("Object", _object, si.ObjectStructInfo())
TYPES: dict[str, TypeWord] = {
    "Tensor": Tensor,
    "Shape": Shape,
    "Prim": Prim,
    "Tuple": Tuple,
    "Callable": Callable_,
    "Object": Object,
    "Any": Object,
    "PackedFunc": TypeWord("PackedFunc", _object, si.FuncStructInfo(None, si.ObjectStructInfo())),
}


def info(value: Any) -> si.StructInfo:
    """What stands as an annotation, as a struct info.

    Raises:
        MLCError: it is none.
    """
    if isinstance(value, si.StructInfo):
        return value
    if isinstance(value, TypeWord) and value.default is not None:
        return value.default
    if isinstance(value, DTypeWord | NewVar | PrimVar):
        return si.PrimStructInfo(value.dtype)
    if isinstance(value, tuple):
        return si.TupleStructInfo(tuple(map(info, value)))
    if value is None:
        return si.TupleStructInfo(())
    raise MLCError(f"{value!r} is no type", hint='such as R.Tensor((4,), "float32")')
