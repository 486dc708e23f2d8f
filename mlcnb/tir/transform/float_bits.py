"""Small floats by their bits: as integers of their width, and back from a wider float.

bfloat16        the upper half of a float32; narrowed to the nearest, halves to even
float8_e4m3fn   sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinity, 0x7f is NaN
float8_e5m2     the upper half of a float16

Exact for every number, subnormal ones and NaN included; what is too large becomes what IEEE 754
rounding makes of it (of float8_e4m3fn NaN), as in `ml_dtypes`.
"""

from __future__ import annotations

from collections.abc import Callable

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr

#: dtype -> (bits of the mantissa, bias of the exponent), of those of 8 bits
_FORMATS = {"float8_e4m3fn": (3, 7), "float8_e5m2": (2, 15)}


def bits_of(kind: DType) -> DType:
    """The unsigned integer of the same width and lanes."""
    return dtype(f"uint{kind.bits}").with_lanes(kind.lanes)


def reinterpret(to: DType, value: PrimExpr) -> PrimExpr:
    """The bits of a value as another dtype of the same width; of a reinterpretation its source."""
    if isinstance(value, Call) and value.op == "tir.reinterpret" and value.args[0].dtype == to:
        return value.args[0]
    return value if value.dtype == to else Call(to, "tir.reinterpret", (value,))


def widened(value: PrimExpr, to: DType) -> PrimExpr:
    """A small float as a wider one, exactly; `to` is float32, or float16 for those of 8 bits."""
    bits = reinterpret(bits_of(value.dtype), value)
    lanes = bits.dtype.lanes
    wide = p.cast(_kind("uint32", lanes), bits)
    if value.dtype.element == "bfloat16":
        return p.cast(to, reinterpret(_kind("float32", lanes), p.shift_left(wide, _like(wide, 16))))
    return p.cast(to, _named(wide, lambda b: _from_small(b, *_format(value.dtype))))


def narrowed(value: PrimExpr, to: DType) -> PrimExpr:
    """A float as a small one: the nearest, of two the one whose last bit is 0."""
    lanes = to.lanes
    bits = reinterpret(_kind("uint32", lanes), p.cast(_kind("float32", lanes), value))
    if to.element == "bfloat16":
        return reinterpret(to, _named(bits, _to_bfloat))
    return reinterpret(to, _named(bits, lambda b: _to_small(b, *_format(to))))


def _named(value: PrimExpr, made: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """What is made of a value that is computed once."""
    var = e.Var("bits", value.dtype)
    return e.Let(var, value, made(var))


def _format(kind: DType) -> tuple[int, int]:
    if kind.element not in _FORMATS:
        raise UnsupportedDtypeError(
            f"{kind.element} has no conversion by bits", hint=f"there are {', '.join(_FORMATS)}"
        )
    return _FORMATS[kind.element]


def _to_bfloat(bits: PrimExpr) -> PrimExpr:
    """The upper half of a float32, rounded; a NaN stays one."""
    upper = p.shift_right(bits, _like(bits, 16))
    bias = p.bitwise_and(upper, _like(bits, 1)) + _like(bits, 0x7FFF)
    rounded = p.shift_right(bits + bias, _like(bits, 16))
    rest = p.bitwise_and(bits, _like(bits, 0x7FFFFFFF))
    is_nan = p.greater(rest, _like(bits, 0x7F800000))
    found = e.Select(is_nan, p.bitwise_or(upper, _like(bits, 0x40)), rounded)
    return p.cast(_kind("uint16", bits.dtype.lanes), found)


def _from_small(bits: PrimExpr, mantissa: int, bias: int) -> PrimExpr:
    """A float of 8 bits, in a uint32, as float32."""
    wide = _kind("float32", bits.dtype.lanes)
    sign = p.shift_left(p.shift_right(bits, _like(bits, 7)), _like(bits, 31))
    rest = p.bitwise_and(bits, _like(bits, 0x7F))
    shifted = p.shift_left(rest, _like(bits, 23 - mantissa))
    normal = shifted + _like(bits, (127 - bias) << 23)
    unit = p.cast(wide, p.const(2.0 ** (1 - bias - mantissa), "float32"))
    small = reinterpret(bits.dtype, p.multiply(p.cast(wide, rest), unit))
    found: PrimExpr = e.Select(p.less(rest, _like(bits, 1 << mantissa)), small, normal)
    first = 0x7F if mantissa == 3 else 0x7C
    special = p.bitwise_or(shifted, _like(bits, 0x7FC00000 if mantissa == 3 else 0x7F800000))
    found = e.Select(p.greater_equal(rest, _like(bits, first)), special, found)
    return reinterpret(wide, p.bitwise_or(sign, found))


def _to_small(bits: PrimExpr, mantissa: int, bias: int) -> PrimExpr:
    """The bits of a float32 as those of a float of 8 bits, in a uint8."""
    wide, drop = _kind("float32", bits.dtype.lanes), 23 - mantissa
    sign = p.shift_left(p.shift_right(bits, _like(bits, 31)), _like(bits, 7))
    rest = p.bitwise_and(bits, _like(bits, 0x7FFFFFFF))
    odd = p.bitwise_and(p.shift_right(rest, _like(bits, drop)), _like(bits, 1))
    rounded = rest + (odd + _like(bits, (1 << (drop - 1)) - 1))
    normal = p.shift_right(rounded, _like(bits, drop)) - _like(bits, (127 - bias) << mantissa)
    steps = p.cast(wide, p.const(2.0 ** (bias - 1 + mantissa), "float32"))
    whole = Call(wide, "tir.nearbyint", (p.multiply(reinterpret(wide, rest), steps),))
    below = p.less(rest, _like(bits, (128 - bias) << 23))
    small = p.cast(bits.dtype, e.Select(below, whole, p.cast(wide, p.const(0.0, "float32"))))
    largest, nan = (0x7F, 0x7F) if mantissa == 3 else (0x7C, 0x7E)
    found: PrimExpr = e.Select(below, small, p.minimum(normal, _like(bits, largest)))
    is_nan = p.greater(rest, _like(bits, 0x7F800000))
    found = p.bitwise_or(sign, e.Select(is_nan, _like(bits, nan), found))
    return p.cast(_kind("uint8", bits.dtype.lanes), found)


def _kind(name: str, lanes: int) -> DType:
    return dtype(name).with_lanes(lanes)


def _like(x: PrimExpr, value: int) -> PrimExpr:
    """A number in the dtype and lanes of `x`."""
    one = p.const(value, x.dtype.element)
    return one if x.dtype.lanes == 1 else e.Broadcast(one, x.dtype.lanes)
