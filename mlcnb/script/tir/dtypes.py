"""The dtypes of T: `T.float32` is one, `T.float32(1.0)` a constant, `T.int64()` a variable."""

from __future__ import annotations

import ast
from typing import Any

from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, SizeVar, Var
from mlcnb.script import build
from mlcnb.script.frames import NewVar
from mlcnb.tir.buffer import as_scope

_SCALARS = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 bool int2 "
    "uint2 int4 uint4 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn void"
)


class DTypeWord:
    """A dtype of T: an annotation, a constructor of constants and casts, a maker of variables."""

    def __init__(self, name: str) -> None:
        self.dtype: DType = dtype(name)
        self.__name__ = name

    def __repr__(self) -> str:
        return f"T.{self.dtype}"

    def __call__(self, value: Any = None, *, is_size_var: bool = False) -> PrimExpr:
        """A constant of a number, a cast of an expression, a new variable of nothing."""
        if value is None:
            return (SizeVar if is_size_var else Var)("v", self.dtype)
        if isinstance(value, str):
            value = float(value)
        return build.cast(self.dtype, value)

    def read(self, evaluator: Any, node: ast.Call) -> Any:
        """In a program, `T.int64()` takes its name from the line that it stands on."""
        args = evaluator.values(node.args)
        kwargs = {str(k.arg): evaluator.value(k.value) for k in node.keywords}
        if not args or args == [None]:
            return NewVar(self.dtype, bool(kwargs.get("is_size_var", False)))
        with evaluator.blame(node):
            return self(*args, **kwargs)


class HandleWord:
    """`T.handle`, and `T.handle("float32", "global")` for a pointer to buffer data."""

    dtype: DType = dtype("handle")
    __name__ = "handle"

    def __repr__(self) -> str:
        return "T.handle"

    def __call__(self, element: str | None = None, scope: str = "global") -> Var:
        """A new pointer variable."""
        return self.declared(element, scope).make("v")

    def declared(self, element: Any = None, scope: str = "global") -> NewVar:
        """A pointer that gets its name later."""
        if element is None:
            return NewVar(self.dtype)
        name = getattr(element, "dtype", element)
        return NewVar(self.dtype, pointee=(str(dtype(str(name))), as_scope(scope)))

    def read(self, evaluator: Any, node: ast.Call) -> NewVar:
        """In a program the pointer takes its name from the line that it stands on."""
        kwargs = {str(k.arg): evaluator.value(k.value) for k in node.keywords}
        with evaluator.blame(node):
            return self.declared(*evaluator.values(node.args), **kwargs)


DTYPES: dict[str, Any] = {name: DTypeWord(name) for name in _SCALARS.split()}
DTYPES["boolean"] = DTYPES["bool"]
DTYPES["handle"] = HandleWord()
DTYPES["Ptr"] = DTYPES["ptr"] = DTYPES["handle"]


def vector_dtype(name: str) -> DTypeWord | None:
    """`float32x4` and the like, made when first used."""
    element, _, lanes = name.rpartition("x")
    if element in DTYPES and lanes.isdigit() and len(lanes) < 6:
        return DTYPES.setdefault(name, DTypeWord(name))
    return None


def dtype_of(annotation: Any) -> NewVar | None:
    """The variable that an annotation of a parameter or a let asks for, or None."""
    if isinstance(annotation, DTypeWord | HandleWord):
        return NewVar(annotation.dtype)
    if isinstance(annotation, NewVar):
        return annotation
    if isinstance(annotation, Var):
        return NewVar(annotation.dtype, isinstance(annotation, SizeVar), annotation.pointee)
    if isinstance(annotation, str):
        return NewVar(dtype(annotation))
    if annotation is int or annotation is float:
        return NewVar(dtype("int32" if annotation is int else "float32"))
    return None
