"""Values of a program as graph expressions: tuples, scalars, strings, stored constants."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.ir.function import BaseFunc
from mlcnb.relax import expr as rx
from mlcnb.script.frames import Frame

Scalar = bool | int | float


def as_relax(value: Any) -> Any:
    """A graph expression.

    Python ints and floats are scalars (int64, float64), tuples and lists are tuples.

    Raises:
        MLCError: the value is none.
    """
    if isinstance(value, rx.Expr | GlobalVar | BaseFunc):
        return value
    if isinstance(value, tuple | list):
        return rx.Tuple(tuple(map(as_relax, value)))
    if isinstance(value, PrimExpr):
        return rx.PrimValue(value)
    if isinstance(value, bool):
        return rx.PrimValue(p.const(value))
    if isinstance(value, int | float):
        return rx.PrimValue(p.const(value, "int64" if isinstance(value, int) else "float64"))
    if isinstance(value, str):
        return rx.StringImm(value)
    if isinstance(value, np.ndarray | np.generic):
        return rx.const(value)
    what = type(value).__name__
    hint = "it stands on a line of its own" if isinstance(value, Frame) else "R.const(value, dtype)"
    raise MLCError(f"{what} is no graph expression", hint=hint)


def const(value: Any, dtype: Any = None) -> rx.Constant:
    """A constant tensor of a number, a nested list or an array: `R.const(1.0, "float32")`."""
    kind = None if dtype is None else str(getattr(dtype, "dtype", dtype))
    if isinstance(value, str):
        value = float(value)
    return rx.const(value, kind)


def is_stored(value: Any) -> bool:
    """True for an entry of `metadata`."""
    return isinstance(value, dict) and value.keys() == {"dtype", "shape", "data"}


def stored_constant(entry: dict) -> rx.Constant:
    """A constant of `metadata`: {"dtype": …, "shape": […], "data": base64}.

    Raises:
        MLCError: dtype, shape and data do not fit together.
    """
    return rx.Constant(_array(entry))


def _array(entry: dict) -> np.ndarray:
    try:
        kind = dtype(entry["dtype"]).numpy
        shape = tuple(int(d) for d in entry["shape"])
        raw = base64.b64decode(entry["data"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error, AttributeError) as error:
        raise MLCError(f"this constant cannot be read: {error}") from error
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(raw):
        raise MLCError(f"this constant has {len(raw)} bytes, {kind} of shape {shape} needs others")
    array = np.frombuffer(raw, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    array.flags.writeable = False
    return array
