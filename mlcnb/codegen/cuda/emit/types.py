"""Types and numbers as CUDA C++ spells them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.core.node import Node, walk
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir.stmt import Allocate

_NAMES = {
    "float16": "half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip
#: dtypes whose operators come from a header
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
#: dtypes that C++ computes as int: results have to be cut back
NARROW = ("int8", "int16", "uint8", "uint16")
#: CUDA's own vector types, for copies
_NATIVE = {
    "float32": "float", "int32": "int", "uint32": "uint", "float64": "double", "int8": "char",
    "uint8": "uchar", "int16": "short", "uint16": "ushort",
}  # fmt: skip
#: bytes that one thread can load or store at once
WIDEST = 16


def ctype(kind: DType) -> str:
    """The C++ type of one lane of a dtype.

    Raises:
        UnsupportedDtypeError: CUDA C++ has no such type, or none that this backend knows.
    """
    name = _NAMES.get(str(kind.element))
    if name is None:
        raise UnsupportedDtypeError(
            f"the cuda backend has no form for {kind.element}",
            hint=f"there are {', '.join(_NAMES)}",
        )
    return name


def vector_type(kind: DType) -> str:
    """A C++ type of several lanes that is copied at once."""
    name = _NATIVE.get(str(kind.element))
    if name is not None and kind.lanes in (2, 4):
        return f"{name}{kind.lanes}"
    return f"vec<{ctype(kind)}, {kind.lanes}>"


def has_vector(kind: DType) -> bool:
    """True if the lanes can be loaded and stored at once."""
    lanes, size = kind.lanes, kind.element.nbytes * kind.lanes
    return lanes > 1 and lanes & (lanes - 1) == 0 and size <= WIDEST and not kind.is_bool


def integer(value: int, kind: DType) -> str:
    """An integer literal."""
    if kind.is_bool:
        return "true" if value else "false"
    if kind == "int64" and not -(2**31) < value < 2**31:
        return f"{value}LL" if value > -(2**63) else "(-9223372036854775807LL - 1)"
    if kind == "int32" and value == -(2**31):
        return "(-2147483647 - 1)"
    if kind.is_uint and kind.bits >= 32:
        return f"{value}{'u' if kind.bits == 32 else 'ull'}"
    return str(value)


def floating(value: float, kind: DType) -> str:
    """A floating-point literal, to the last bit."""
    if kind == "float64":
        return _double(value)
    if kind == "float32":
        return _float(value)
    return f"{ctype(kind)}({_float(value)})"


def _float(value: float) -> str:
    if math.isinf(value):
        return f"__int_as_float(0x{'7f' if value > 0 else 'ff'}800000)"
    if math.isnan(value):
        return "__int_as_float(0x7fffffff)"
    return f"{_digits(str(np.float32(value)))}f"


def _double(value: float) -> str:
    if math.isinf(value):
        return f"__longlong_as_double(0x{'7f' if value > 0 else 'ff'}f0000000000000LL)"
    if math.isnan(value):
        return "__longlong_as_double(0x7fffffffffffffffLL)"
    return _digits(repr(float(value)))


def _digits(text: str) -> str:
    return text if "." in text or "e" in text else f"{text}.0"


def headers_of(n: Node) -> list[str]:
    """The headers that the dtypes in a program need."""
    return sorted({HEADERS[str(k)] for k in _dtypes_of(n) if str(k) in HEADERS})


def _dtypes_of(n: Node) -> Iterator[DType]:
    for x in walk(n):
        if isinstance(x, Allocate) or (isinstance(x, PrimExpr) and not x.dtype.is_handle):
            yield x.dtype.element
        if isinstance(x, Var) and x.pointee is not None:
            from mlcnb.ir.dtype import dtype

            yield dtype(x.pointee[0]).element
