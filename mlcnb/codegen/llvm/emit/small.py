"""Floats of 8 bits and less: a byte in memory, a float32 in registers, rounded after each step.

    decode    byte -> float            a table of 256 floats
    encode    float -> byte            a table over sign, exponent, 5 bits of the mantissa, and one
                                       that says whether any of the others is set

Five bits and the sticky one decide how a float32 rounds to a mantissa of at most four bits, so both
tables together are the whole truth about a dtype: NaN, infinities, saturation and all. They are
made by the same library that the reference interpreter rounds with.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.ir.dtype import DType, dtype

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: bits of a float32 below those that the table looks at
_REST = 18


def decode(em: Emitter, raw: str, kind: DType) -> str:
    """The float32 (or vector of them) behind bytes."""
    fn = em.module.declare(f"mlcnb.decode.{kind.element}", _decoder(str(kind.element)))
    return em.f.each_lane(fn, [("i8", raw)], kind.lanes, "float")


def encode(em: Emitter, value: str, kind: DType) -> str:
    """The bytes of float32 values that are rounded already, or not."""
    fn = em.module.declare(f"mlcnb.encode.{kind.element}", _encoder(str(kind.element)))
    return em.f.each_lane(fn, [("float", value)], kind.lanes, "i8")


def rounded(em: Emitter, value: str, kind: DType) -> str:
    """Float32 values rounded to the dtype."""
    return decode(em, encode(em, value, kind), kind)


def from_double(em: Emitter, value: str, lanes: int) -> str:
    """A double as a float32 that rounds on as the double would: inexact ones get their last bit."""
    f = em.f
    double, single, ints, bools = (t.vector(x, lanes) for x in ("double", "float", "i32", "i1"))

    def literal(number: int) -> str:
        return t.splat("i32", number, lanes)

    near = f.emit(f"fptrunc {double} {value} to {single}")
    back = f.emit(f"fpext {single} {near} to {double}")
    bits = f.emit(f"bitcast {single} {near} to {ints}")
    fabs = em.intrinsic(f"llvm.fabs.{'f64' if lanes == 1 else f'v{lanes}f64'}", double, (double,))
    sizes = [f.emit(f"call {double} {fabs}({double} {x})") for x in (back, value)]
    beyond = f.emit(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    lower = f.emit(f"sub {ints} {bits}, {literal(1)}")
    towards_zero = f.emit(f"select {bools} {beyond}, {ints} {lower}, {ints} {bits}")
    odd = f.emit(f"or {ints} {towards_zero}, {literal(1)}")
    inexact = f.emit(f"fcmp one {double} {back}, {value}")
    kept = f.emit(f"select {bools} {inexact}, {ints} {odd}, {ints} {bits}")
    return f.emit(f"bitcast {ints} {kept} to {single}")


@cache
def _decoder(name: str) -> str:
    values = np.arange(256, dtype="uint8").view(_numpy(name)).astype("float32").view("uint32")
    entries = ", ".join(f"i32 {v}" for v in values)
    return f"""
@mlcnb.decode.{name}.table = private unnamed_addr constant [256 x i32] [{entries}]
define internal float @mlcnb.decode.{name}(i8 %byte) alwaysinline nounwind {{
  %index = zext i8 %byte to i64
  %place = getelementptr [256 x i32], ptr @mlcnb.decode.{name}.table, i64 0, i64 %index
  %bits = load i32, ptr %place
  %value = bitcast i32 %bits to float
  ret float %value
}}"""


@cache
def _encoder(name: str) -> str:
    count = 1 << (33 - _REST)
    keys = np.arange(count, dtype="uint32")
    floats = ((keys >> 1) << _REST | (keys & 1)).astype("uint32").view("float32")
    with np.errstate(all="ignore"):
        doubles = floats.astype("float64")  # as the interpreter, which computes in double
        raw = doubles.astype(_numpy(name)).view("uint8").tobytes()
    digits = "".join(f"\\{byte:02X}" for byte in raw)
    table = f"@mlcnb.encode.{name}.table"
    return f"""
{table} = private unnamed_addr constant [{count} x i8] c"{digits}"
define internal i8 @mlcnb.encode.{name}(float %value) alwaysinline nounwind {{
  %bits = bitcast float %value to i32
  %top = lshr i32 %bits, {_REST}
  %low = and i32 %bits, {(1 << _REST) - 1}
  %some = icmp ne i32 %low, 0
  %sticky = zext i1 %some to i32
  %twice = shl i32 %top, 1
  %key = or i32 %twice, %sticky
  %index = zext i32 %key to i64
  %place = getelementptr [{count} x i8], ptr {table}, i64 0, i64 %index
  %byte = load i8, ptr %place
  ret i8 %byte
}}"""


def _numpy(name: str) -> np.dtype:
    return dtype(name).numpy


def rounded_bfloat(em: Emitter, value: str, kind: DType) -> str:
    """A float operand rounded to bfloat16, as float32: nearest, ties to even."""
    lanes, f = kind.lanes, em.f
    floats, ints = t.vector("float", lanes), t.vector("i32", lanes)
    if "avx512bf16" in em.features:
        low = f.emit(f"fptrunc {floats} {value} to {t.vector('bfloat', lanes)}")
        made = f.emit(f"fpext {t.vector('bfloat', lanes)} {low} to {floats}")
        f.bfloats[made] = low
        return made

    def literal(number: int) -> str:
        return t.splat("i32", number, lanes)

    bits = f.emit(f"bitcast {floats} {value} to {ints}")
    upper = f.emit(f"lshr {ints} {bits}, {literal(16)}")
    odd = f.emit(f"and {ints} {upper}, {literal(1)}")
    bias = f.emit(f"add {ints} {odd}, {literal(0x7FFF)}")
    up = f.emit(f"add {ints} {bits}, {bias}")
    nan = f.emit(f"fcmp uno {floats} {value}, {value}")
    kept = f.emit(
        f"select {t.vector('i1', lanes)} {nan}, {ints} {literal(0x7FC00000)}, {ints} {up}"
    )
    cut = f.emit(f"and {ints} {kept}, {literal(-65536)}")
    return f.emit(f"bitcast {ints} {cut} to {floats}")
