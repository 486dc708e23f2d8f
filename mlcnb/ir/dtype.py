"""Data types as TVM spells them: `float32`, `int64x4`, `bool`, `bfloat16`, `float8_e4m3fn`,
`handle`.

A `DType` is a string, so `x.dtype == "float32"` works, with its parts as properties.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from mlcnb.core.errors import UnsupportedDtypeError

if TYPE_CHECKING:
    import numpy as np

#: the floats of 8 bits and less, by exponent and mantissa bits; stored one in a byte
SMALL_FLOATS = (
    "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn"
).split()
_PATTERN = re.compile(
    rf"({'|'.join(SMALL_FLOATS)}|bool|(?:bfloat|float|u?int)(?=\d|x|$))(\d*)(?:x(vscalex)?([1-9]\d*))?"
)
#: the widths of a kind of number, the one that its bare name means first
_BITS = {
    "float": (32, 16, 64),
    "bfloat": (16,),
    "int": (32, 2, 4, 8, 16, 64),
    "uint": (32, 2, 4, 8, 16, 64),
    "bool": (1,),
}


class DType(str):
    """A dtype string with its parts `code`, `bits`, `lanes`; there is one object a spelling, which
    `dtype()` and `DType()` give.

    Raises:
        UnsupportedDtypeError: the spelling names no dtype.
    """

    code: str
    bits: int
    lanes: int
    #: smallest and largest integer that one lane holds; of what holds none, no limits
    limits: tuple[float, float]
    __slots__ = ("bits", "code", "lanes", "limits")

    def __new__(cls, spelling: str = "") -> DType:
        """As `dtype(spelling)`."""
        return dtype(spelling)

    @property
    def is_float(self) -> bool:
        """True for float16/32/64, bfloat16 and the 8-bit floats."""
        return self.code.startswith(("float", "bfloat"))

    @property
    def is_int(self) -> bool:
        """True for signed integers."""
        return self.code == "int"

    @property
    def is_uint(self) -> bool:
        """True for unsigned integers (bool not counted)."""
        return self.code == "uint"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers."""
        return self.code in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """True for bool and vectors of bool."""
        return self.code == "bool"

    @property
    def is_handle(self) -> bool:
        """True for pointers."""
        return self.code == "handle"

    @property
    def element(self) -> DType:
        """The dtype of one lane."""
        return dtype(self.split("x")[0]) if self.lanes != 1 else self

    def with_lanes(self, lanes: int) -> DType:
        """The vector dtype of this element with `lanes` lanes; -4: with vscale * 4 of them."""
        element = str(self.element)
        if lanes < 0:
            return dtype(f"{element}xvscalex{-lanes}")
        return dtype(element if lanes == 1 else f"{element}x{lanes}")

    @property
    def fixed_lanes(self) -> int:
        """The number of lanes, where it is a number.

        Raises:
            UnsupportedDtypeError: a scalable vector, as long as the machine has it.
        """
        if self.lanes < 0:
            raise UnsupportedDtypeError(
                f"{self}: no backend has vectors of scalable length",
                hint="give Ramp and Broadcast a number of lanes",
            )
        return self.lanes

    @property
    def nbytes(self) -> int:
        """Bytes of one value as it lies in memory, all lanes (bool takes one byte)."""
        return (self.bits + 7) // 8 * self.fixed_lanes

    @property
    def min_value(self) -> int:
        """Smallest value of an integer or bool dtype."""
        return -(1 << (self.bits - 1)) if self.is_int else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer or bool dtype."""
        if self.is_bool:
            return 1
        return (1 << (self.bits - (1 if self.is_int else 0))) - 1

    def holds(self, value: float) -> bool:
        """Whether `value` is a number of this integer or bool dtype."""
        low, high = self.limits
        return low <= value <= high

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of one lane (bfloat16 and the 8-bit floats come from ml_dtypes)."""
        return _numpy(str(self.element))


@cache
def dtype(spelling: str) -> DType:
    """The `DType` of a spelling, a NumPy dtype or a scalar type; `""` is void.

    Raises:
        UnsupportedDtypeError: the spelling names no dtype.
    """
    name = spelling if isinstance(spelling, str) else _spelling_of(spelling)
    if name.startswith("uint1") and name[5:6] in ("", "x"):  # bool as TVM spells it too
        return dtype("bool" + name[5:])
    name = name or "void"  # TVM's older text says "" for a call that gives nothing
    code, bits, lanes = _parts(name)
    if name.split("x")[0] in ("int", "uint", "float", "bfloat"):  # short for the usual width
        return dtype(f"{code}{bits}" if lanes == 1 else f"{code}{bits}x{lanes}")
    made = str.__new__(DType, name)
    made.code, made.bits, made.lanes = code, bits, lanes
    counts = made.is_integer or made.is_bool
    made.limits = (made.min_value, made.max_value) if counts else (-math.inf, math.inf)
    return made


def _parts(name: str) -> tuple[str, int, int]:
    if name in ("handle", "void"):
        return name, 64 if name == "handle" else 0, 1
    match = _PATTERN.fullmatch(name)
    code, digits, scalable, lanes = match.groups() if match is not None else ("", "", None, None)
    lanes = f"-{lanes}" if scalable else lanes
    known = _BITS.get(code, ())
    bits = int(digits) if digits else next(iter(known), 0)
    if "_" in code and not digits:
        return code, int(code[len("float")]), int(lanes or 1)
    if bits not in known or (code == "bool" and digits):
        raise UnsupportedDtypeError(
            f"no dtype {name!r}", hint="e.g. float32, int64, bool, float16x8"
        )
    return code, bits, int(lanes or 1)


def _spelling_of(given: object) -> str:
    import numpy as np

    try:
        return np.dtype(given).name  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise UnsupportedDtypeError(
            f"{type(given).__name__} {given!r} is no dtype", hint='write it as text: "float32"'
        ) from error


#: dtypes that NumPy itself does not have
_ML_DTYPES = {*SMALL_FLOATS, "bfloat16", "int2", "uint2", "int4", "uint4"}


@cache
def _numpy(name: str) -> np.dtype:
    import numpy as np

    if name in _ML_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    if name == "handle":
        return np.dtype("uint64")
    return np.dtype(name)
