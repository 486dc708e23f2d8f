"""LLVM types and literals of our dtypes.

bool is i1 in registers and i8 in memory, and so are the integers of 2 and 4 bits; bfloat16 is i16
in memory and computed as float, rounded after every operation; the floats of 8 bits and less are
bytes in memory and computed as float too.
"""

from __future__ import annotations

import math
import struct

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.ir.dtype import SMALL_FLOATS, DType

_FLOATS = {
    **dict.fromkeys(("bfloat16", *SMALL_FLOATS), "float"),  # e8m0fnu is taken out below
    "float16": "half",
    "float32": "float",
    "float64": "double",
}
#: its smallest power of two is a denormal float32, which counts as zero while a kernel runs
del _FLOATS["float8_e8m0fnu"]


def scalar_type(kind: DType) -> str:
    """The register type of one lane.

    Raises:
        UnsupportedDtypeError: LLVM has none, or the vector has no fixed length.
    """
    element = kind.element if kind.fixed_lanes != 1 else kind
    if element in _FLOATS:
        return _FLOATS[element]
    if element.is_bool:
        return "i1"
    if element.is_integer and element.bits in (2, 4, 8, 16, 32, 64):
        return f"i{element.bits}"
    if element.is_handle:
        return "ptr"
    raise UnsupportedDtypeError(
        f"the llvm backend has no type for {element}", hint="cast to float32 before compiling"
    )


def register_type(kind: DType) -> str:
    """The register type, vectors included."""
    element = scalar_type(kind)
    return element if kind.lanes == 1 else f"<{kind.lanes} x {element}>"


def memory_scalar(kind: DType) -> str:
    """The type of one element in memory."""
    element = kind.element
    if element.bits < 8 or element in SMALL_FLOATS:
        return "i8"
    return "i16" if element == "bfloat16" else scalar_type(element)


def memory_type(kind: DType) -> str:
    """The type in memory, vectors included."""
    element = memory_scalar(kind)
    return element if kind.lanes == 1 else f"<{kind.lanes} x {element}>"


def vector(element: str, lanes: int) -> str:
    """`<lanes x element>`, or the element for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def float_literal(value: float, kind: DType) -> str:
    """An exact literal, in hexadecimal: a float is written as the double it equals."""
    if kind.element == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', _fits_half(value)))[0]:04X}"
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind.element != "float64" and math.isnan(value):
        bits = 0x7FF8000000000000
    return f"0x{bits:016X}"


def _fits_half(value: float) -> float:
    return (
        value if abs(value) <= 65504 or not math.isfinite(value) else math.copysign(math.inf, value)
    )


def splat(element: str, value: str | int, lanes: int) -> str:
    """A literal vector with every lane the literal `value`; that itself for one lane."""
    return str(value) if lanes == 1 else f"splat ({element} {value})"


def zero(kind: DType) -> str:
    """The zero of a register type."""
    if kind.lanes != 1:
        return "zeroinitializer"
    if kind.is_handle:
        return "null"
    return float_literal(0.0, kind) if kind.is_float else ("false" if kind.is_bool else "0")


def intrinsic_suffix(kind: DType) -> str:
    """`f32`, `v16f32`, `v4i64`: how LLVM names the overloads of intrinsics."""
    element = scalar_type(kind)
    short = {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)
    return short if kind.lanes == 1 else f"v{kind.lanes}{short}"
