"""Calls of declared operators, evaluated: each argument in the form that `numpy` takes.

    call_numpy(call, lookup)     R.reshape(x, (n, 4))  ->  Reshape().numpy(array, (2, 4))

`lookup` gives the value of a variable or constant, and `dims` those of symbolic variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.ir.expr import FloatImm, IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import substitute
from mlcnb.relax.operator import attrs_of, call_arguments, declaration
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo

Lookup = Callable[[Any], Any]


def call_numpy(call: rx.Call, lookup: Lookup, dims: Mapping[PrimVar, int] | None = None) -> Any:
    """The value of a call of a declared operator.

    Args:
        call: the call; its struct info, where it is known, gives the dtypes of the result.
        lookup: from a relax Var to its value (array, tuple of values, tuple of dimensions, number).
        dims: values of symbolic variables.

    Returns:
        An array, or a tuple of arrays.

    Raises:
        UnsupportedOpError: the operator has no NumPy meaning.
        ExecutionError: a value is not known.
    """
    kinds = declaration(call.op).arguments.values()
    values = [
        None if arg is None else operand(arg, kind, lookup, dims or {})
        for arg, kind in zip(call_arguments(call), kinds, strict=True)
    ]
    with np.errstate(all="ignore"):
        result = attrs_of(call).numpy(*values)
    return _of_dtype(result, call.struct_info)


def operand(arg: Any, kind: str, lookup: Lookup, dims: Mapping[PrimVar, int]) -> Any:
    """One argument as `numpy` takes it."""
    value = value_of(arg, lookup, dims)
    if kind == "Tensor" or kind == "OptionalTensor":
        info = getattr(arg, "struct_info", None)
        scalar_of_kind = info.dtype.numpy if isinstance(info, PrimStructInfo) else None
        return np.asarray(value, dtype=scalar_of_kind)
    return tuple(value) if kind == "Tensors" else value


def value_of(arg: Any, lookup: Lookup, dims: Mapping[PrimVar, int]) -> Any:
    """The value of a leaf: array, tuple, dimensions, number, string or dtype."""
    if isinstance(arg, rx.Constant):
        return arg.data
    if isinstance(arg, rx.Tuple):
        return tuple(value_of(f, lookup, dims) for f in arg.fields)
    if isinstance(arg, rx.ShapeExpr):
        return tuple(scalar_of(v, dims) for v in arg.values)
    if isinstance(arg, rx.PrimValue):
        return scalar_of(arg.value, dims)
    return arg.value if isinstance(arg, rx.StringImm | rx.DataTypeImm) else lookup(arg)


def scalar_of(expr: PrimExpr, dims: Mapping[PrimVar, int]) -> Any:
    """The number that a scalar expression comes to.

    Raises:
        ExecutionError: a symbolic variable of it is not known.
    """
    if not isinstance(expr, IntImm | FloatImm):
        given = {v: IntImm(v.dtype, int(n)) for v, n in dims.items()}
        expr = substitute(expr, given)
    if not isinstance(expr, IntImm | FloatImm):
        raise ExecutionError(f"the value of {expr!r} is not known")
    return bool(expr.value) if expr.dtype.is_bool else expr.value


def _of_dtype(result: Any, info: Any) -> Any:
    """Arrays of the dtypes that the struct info says."""
    if isinstance(info, TupleStructInfo) and isinstance(result, tuple | list):
        return tuple(_of_dtype(r, f) for r, f in zip(result, info.fields, strict=True))
    if isinstance(info, PrimStructInfo):
        return np.asarray(result).astype(info.dtype.numpy).item()
    if isinstance(info, TensorStructInfo) and info.dtype is not None:
        return np.asarray(result).astype(info.dtype.numpy, copy=False)
    return tuple(result) if isinstance(result, list) else result
