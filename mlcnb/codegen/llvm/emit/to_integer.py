"""Floats to integers: beyond the ends the ends, 0 for NaN; as few instructions as the form allows.

    T.Cast("int32", x)                                       five or so: nothing is known of x
    T.Cast("int32", T.max(T.min(x, 127.0), -128.0))          a conversion, and 0 for NaN
    T.Cast("int32", T.round(T.max(T.min(x, 127.0), -128.0))) vcvtps2dq, which rounds halves to even

LLVM's own saturating conversion takes vectors to pieces, lane by lane, so they are clamped here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.bounds import Bounds, bounds, is_rounding
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType, dtype

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def cast_to_integer(em: Emitter, x: e.Cast) -> str:
    """A float expression as an integer."""
    source, to, held = x.value.dtype, x.dtype, bounds(x.value)
    wide = _computed(to)
    if not _fits(held, source, to):
        return saturated(em, em.expr(x.value), source, to)
    if is_rounding(x.value) and source.element == "float32" and wide.element == "int32":
        value = em.expr(x.value.args[0])  # type: ignore[attr-defined]
        made = _rounded(em, value, source, wide)
    else:
        value = em.expr(x.value)
        made = _converted(em, value, source, wide)
    made = _narrowed(em, made, wide, to)
    return made if held.is_number else _zero_for_nan(em, made, value, source, to)


def saturated(em: Emitter, value: str, source: DType, to: DType) -> str:
    """A float operand as an integer.

    float16 goes by float32, which holds all of it: with AVX512-FP16 LLVM's own conversion to int16
    makes -32768 of NaN.
    """
    if source.element == "float16":
        single = dtype("float32").with_lanes(source.lanes)
        value = em.f.emit(f"fpext {em.type(source)} {value} to {em.type(single)}")
        source = single
    if to.lanes != 1 and source.element in ("float32", "float64"):
        return _clamped(em, value, source, to)
    a, b = em.type(source), em.type(to)
    op = "fptosi" if to.is_int else "fptoui"
    name = f"llvm.{op}.sat.{t.intrinsic_suffix(to)}.{t.intrinsic_suffix(source)}"
    fn = em.intrinsic(name, b, (a,))
    return em.f.emit(f"call {b} {fn}({a} {value})")


def _fits(held: Bounds, source: DType, to: DType) -> bool:
    """True if every number within the bounds is one of the integer's."""
    exact = source.element in ("float32", "float64") and 8 <= to.bits <= 32
    return exact and to.min_value <= held.low and held.high <= to.max_value


def _computed(to: DType) -> DType:
    """The integer that a conversion instruction makes: int32, uint32, or one of 64 bits."""
    return to if to.bits >= 32 else dtype("int32").with_lanes(to.lanes)


def _narrowed(em: Emitter, value: str, wide: DType, to: DType) -> str:
    if wide.bits == to.bits:
        return value
    return em.f.emit(f"trunc {em.type(wide)} {value} to {em.type(to)}")


def _converted(em: Emitter, value: str, source: DType, to: DType) -> str:
    """Towards zero, of a number that fits; what is made of another one is left open."""
    op = "fptosi" if to.is_int else "fptoui"
    made = em.f.emit(f"{op} {em.type(source)} {value} to {em.type(to)}")
    return em.f.emit(f"freeze {em.type(to)} {made}")


def _rounded(em: Emitter, value: str, source: DType, to: DType) -> str:
    """To the nearest, halves to even."""
    a, b = em.type(source), em.type(to)
    name = f"llvm.lrint.{t.intrinsic_suffix(to)}.{t.intrinsic_suffix(source)}"
    return em.f.emit(f"call {b} {em.intrinsic(name, b, (a,))}({a} {value})")


def _zero_for_nan(em: Emitter, made: str, value: str, source: DType, to: DType) -> str:
    test = em.f.emit(f"fcmp ord {em.type(source)} {value}, {value}")
    bools, kind = t.vector("i1", to.lanes), em.type(to)
    return em.f.emit(f"select {bools} {test}, {kind} {made}, {kind} {t.zero(to)}")


def _clamped(em: Emitter, value: str, source: DType, to: DType) -> str:
    """Clamped as floats, converted; the highest where that is no such float (2**31 - 1)."""
    kind, bools, f = em.type(source), t.vector("i1", to.lanes), em.f
    beyond = to.bits - to.is_int - (24 if source.bits == 32 else 53)  # bits that the float lacks
    inexact = beyond > 0
    top = float(to.max_value - 2**beyond + 1 if inexact else to.max_value)
    kept = value
    for order, end in (("ogt", float(to.min_value)), ("olt", top)):
        limit = t.splat(t.scalar_type(source), t.float_literal(end, source), to.lanes)
        test = f.emit(f"fcmp {order} {kind} {limit}, {kept}")
        kept = f.emit(f"select {bools} {test}, {kind} {limit}, {kind} {kept}")
    wide = _computed(to)
    made = _narrowed(em, _converted(em, kept, source, wide), wide, to)
    if inexact:
        limit = t.splat(t.scalar_type(source), t.float_literal(top, source), to.lanes)
        test = f.emit(f"fcmp ogt {kind} {value}, {limit}")
        most = t.splat(t.scalar_type(to), str(to.max_value), to.lanes)
        made = f.emit(f"select {bools} {test}, {em.type(to)} {most}, {em.type(to)} {made}")
    return _zero_for_nan(em, made, value, source, to)
