"""Python's operators between the values of a program: scalars, graph expressions, Python values."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import reduce
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr
from mlcnb.relax.expr import Expr
from mlcnb.script import build
from mlcnb.script.frames import Sliced
from mlcnb.script.operators import OPERATORS
from mlcnb.script.relax.tensor_attributes import TENSOR_ATTRIBUTES, TENSOR_METHODS
from mlcnb.script.tir.buffer_methods import METHODS
from mlcnb.tir import op as tir_op
from mlcnb.tir.buffer import Buffer, BufferRegion

#: no number of a text has more bits than this
_MAX_BITS = 4096


def is_prim(value: Any) -> bool:
    """True for a scalar expression of the program, vectors `A[0:4]` included."""
    return isinstance(value, PrimExpr | Sliced)


def binary(name: str, left: Any, right: Any, trusted: bool) -> Any:
    """An operator by its name in `ast` ("Add", "LtE") between two values.

    Raises:
        MLCError: there is none between these.
    """
    if isinstance(left, Expr) or isinstance(right, Expr):
        return _of_graph(name, left, right)
    if is_prim(left) or is_prim(right):
        for side in (left, right):
            if not isinstance(side, PrimExpr | Sliced | int | float):
                raise MLCError(f"an operand is {kind_of(side)}, not a number")
        made = build.OPERATORS.get(name)
        if made is None:
            raise MLCError(f"no operator {name} of scalars", hint=_HINTS.get(name))
        return made(left, right)
    return _of_python(name, left, right, trusted)


def _of_python(name: str, left: Any, right: Any, trusted: bool) -> Any:
    """An operator of two Python values; a text may not make monsters of them."""
    made = OPERATORS.get(name)
    if made is None:
        raise MLCError(f"no operator {name} here")
    if name in _COMPARE and holds_symbol(left, right):
        raise MLCError(
            "what holds a symbolic expression is not compared as a whole",
            hint="compare the parts: a[0] == b[0] and a[1] == b[1]",
        )
    if name in ("Pow", "LShift") and isinstance(right, int) and right > _MAX_BITS:
        raise MLCError("this number is too big")
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if name == "Mult" and not (trusted or numbers):
        raise MLCError("only numbers can be multiplied")
    return made.compute(left, right)


def holds_symbol(*values: Any) -> bool:
    """True if a scalar that only the run knows is, or stands inside, one of these values: Python
    would compare it by identity.
    """
    for value in values:
        if isinstance(value, dict):
            value = (*value.keys(), *value.values())
        if isinstance(value, tuple | list) and holds_symbol(*value):
            return True
        if is_prim(value) and not isinstance(value, e.IntImm | e.FloatImm | e.StringImm):
            return True
    return False


def truth(value: PrimExpr) -> PrimExpr:
    """`bool(x)` of a scalar: itself where it is a bool, else `x != 0`."""
    return value if value.dtype.is_bool else build.OPERATORS["NotEq"](value, 0)


def _of_graph(name: str, left: Any, right: Any) -> Expr:
    method = _RELAX_METHODS.get(name)
    if method is None:
        raise MLCError(f"no operator {name} of graph expressions", hint="call it by name: R.…")
    if isinstance(left, Expr):
        found = getattr(left, f"__{method}__")(right)
    else:
        found = getattr(right, f"__r{method}__", lambda _: NotImplemented)(left)
    if found is NotImplemented:
        raise MLCError(f"no operator {name} of {type(left).__name__} and {type(right).__name__}")
    return found


_RELAX_METHODS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge",
}  # fmt: skip
_COMPARE = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
_HINTS = {"Pow": "T.pow(a, b)", "MatMult": "write the loops"}


def unary(kind: type, value: Any) -> Any:
    """`-x`, `not x`, `~x`, by the class in `ast`.

    Raises:
        MLCError: there is no such operator of this value.
    """
    if isinstance(value, Expr):
        return _unary_of_graph(kind, value)
    if not is_prim(value):
        return _PYTHON_UNARY[kind](value)
    return _PRIM_UNARY[kind](build.as_expr(value))


def _unary_of_graph(kind: type, value: Expr) -> Expr:
    if kind is ast.USub:
        return -value
    raise MLCError(f"no operator {kind.__name__} of graph expressions", hint="R.logical_not(x)")


_PYTHON_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: lambda x: -x,
    ast.UAdd: lambda x: +x,
    ast.Not: lambda x: not x,
    ast.Invert: lambda x: ~x,
}
_PRIM_UNARY: dict[type, Callable[[PrimExpr], PrimExpr]] = {
    ast.USub: build.negative,
    ast.UAdd: lambda x: x,
    ast.Not: e.Not,
    ast.Invert: build.invert,
}


#: Python's own functions that a program may use
BUILTINS = {
    name: getattr(builtins, name)
    for name in "abs bool dict float int len list max min str sum tuple zip enumerate".split()
}
#: what they mean for scalars of the program
ON_SCALARS: dict[Any, Callable[..., Any]] = {
    abs: tir_op.abs,
    bool: truth,
    min: lambda *xs: reduce(build.binary(e.Min), xs),
    max: lambda *xs: reduce(build.binary(e.Max), xs),
}
#: attributes of buffers and regions that a text may ask for
_OF_BUFFERS: dict[type, tuple[str, ...]] = {
    Buffer: (*"data dtype shape strides elem_offset scope name ndim".split(), *METHODS),
    BufferRegion: ("buffer", "region"),
}


def attributes(owner: Any) -> tuple[str, ...]:
    """The attributes of a value that a text may ask for."""
    if isinstance(owner, PrimExpr):
        return ("dtype", "astype")
    if isinstance(owner, Expr):
        return ("struct_info", *TENSOR_ATTRIBUTES, *TENSOR_METHODS)
    return _OF_BUFFERS.get(type(owner)) or tuple(getattr(owner, "script_attributes", ()))
