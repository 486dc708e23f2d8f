"""Calls of numbers that LLVM and our own mathematics have no one word for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.core.errors import CodegenError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

Rule = Callable[["Emitter", e.Call], str]


def exp10(em: Emitter, x: e.Call) -> str:
    """10 ** x, by `pow`."""
    return em.expr(e.Call(x.dtype, "tir.pow", (p.const(10.0, x.dtype), x.args[0])))


def ldexp(em: Emitter, x: e.Call) -> str:
    """x * 2 ** y"""
    power = e.Cast(dtype("int32").with_lanes(x.args[1].dtype.lanes), x.args[1])
    kinds = [em.type(a.dtype) for a in (x.args[0], power)]
    suffix = f"{t.intrinsic_suffix(x.dtype)}.{t.intrinsic_suffix(power.dtype)}"
    fn = em.intrinsic(f"llvm.ldexp.{suffix}", kinds[0], (kinds[0], kinds[1]))
    values = em.expr(x.args[0]), em.expr(power)
    return em.f.emit(f"call {kinds[0]} {fn}({kinds[0]} {values[0]}, {kinds[1]} {values[1]})")


def exact_power(em: Emitter, x: e.Call) -> str | None:
    """x ** y of floats where y is known and one instruction rounds it right: 1/2, 1, 2, -1."""
    exponent, kind = _known(x.args[1]), em.type(x.dtype)
    if exponent not in (0.5, 1.0, 2.0, -1.0):
        return None
    base, one = em.expr(x.args[0]), _all_lanes(1.0, x.dtype)
    if exponent == 1.0:
        return base
    if exponent == 2.0:
        return em.f.emit(f"fmul {kind} {base}, {base}")
    if exponent == -1.0:
        return em.f.emit(f"fdiv {kind} {one}, {base}")
    fn = em.intrinsic(f"llvm.sqrt.{t.intrinsic_suffix(x.dtype)}", kind, (kind,))
    made = em.f.emit(f"call {kind} {fn}({kind} {base})")
    for given, instead in ((0.0, 0.0), (-math.inf, math.inf)):  # of -0.0 it is 0.0
        test = em.f.emit(f"fcmp oeq {kind} {base}, {_all_lanes(given, x.dtype)}")
        choice = f"{kind} {_all_lanes(instead, x.dtype)}, {kind} {made}"
        made = em.f.emit(f"select {t.vector('i1', x.dtype.lanes)} {test}, {choice}")
    return made


def _all_lanes(value: float, kind: DType) -> str:
    return t.splat(t.scalar_type(kind), t.float_literal(value, kind), kind.lanes)


def _known(x: e.PrimExpr) -> float | None:
    """The number that an expression is in all lanes, where it is written out."""
    match x:
        case e.FloatImm(value=value):
            return value
        case e.Broadcast(value=value) | e.Cast(value=value):
            return _known(value)
        case _:
            return None


def integer_power(em: Emitter, x: e.Call) -> str:
    """x ** y of integers, wrapping; a negative exponent stops the kernel."""
    kind, element = em.type(x.dtype), t.scalar_type(x.dtype)
    base, exponent = em.expr(x.args[0]), em.expr(x.args[1])
    if x.dtype.is_int:
        negative = em.f.emit(f"icmp slt {kind} {exponent}, {t.zero(x.dtype)}")
        em.stop_if(em.any_lane(negative, x.dtype.lanes), 5)
    fn = em.module.declare(f"mlcnb.power.{element}", _POWER.replace("iN", element))
    operands = ((element, base), (element, exponent))
    return em.f.each_lane(fn, operands, x.dtype.lanes, element)


_POWER = """
define internal iN @mlcnb.power.iN(iN %base, iN %exponent) {
entry:
  br label %loop
loop:
  %b = phi iN [ %base, %entry ], [ %bb, %loop ]
  %n = phi iN [ %exponent, %entry ], [ %nn, %loop ]
  %r = phi iN [ 1, %entry ], [ %rr, %loop ]
  %bit = and iN %n, 1
  %odd = icmp ne iN %bit, 0
  %more = mul iN %r, %b
  %rr = select i1 %odd, iN %more, iN %r
  %bb = mul iN %b, %b
  %nn = lshr iN %n, 1
  %done = icmp eq iN %nn, 0
  br i1 %done, label %end, label %loop
end:
  ret iN %rr
}"""


def only_wide_floats(name: str, rule: Rule) -> Rule:
    """A function that the C library has for float32 and float64 only."""

    def checked(em: Emitter, x: e.Call) -> str:
        if x.dtype.element not in ("float32", "float64"):
            raise CodegenError(f"tir.{name} of {x.dtype}", hint="cast to float32 first")
        return rule(em, x)

    return checked


def large_integer(em: Emitter, x: e.Call) -> str:
    """An integer of 64 bits, from its low and its high half."""
    low, high = (e.Cast(x.dtype, a) for a in x.args)
    upper = e.Call(x.dtype, "tir.shift_left", (high, p.const(32, x.dtype)))
    lower = e.Call(x.dtype, "tir.bitwise_and", (low, p.const(0xFFFFFFFF, x.dtype)))
    return em.expr(e.Call(x.dtype, "tir.bitwise_or", (upper, lower)))


def undefined(em: Emitter, x: e.Call) -> str:
    """Any number: 0, so that two runs give the same."""
    return t.zero(x.dtype)


def half(em: Emitter, x: e.Call) -> str:
    """The first or the last half of the lanes."""
    lanes = x.args[0].dtype.lanes // 2
    at = range(lanes) if x.op == "tir.vectorlow" else range(lanes, 2 * lanes)
    return em.expr(e.Shuffle(x.args, tuple(map(p.const, at))))


def combined(em: Emitter, x: e.Call) -> str:
    """The lanes of two vectors, one after the other."""
    return em.expr(e.Shuffle(x.args, tuple(map(p.const, range(x.dtype.lanes)))))


def lane_mask(em: Emitter, x: e.Call) -> str:
    """Lane i is true where base + i < limit."""
    base, limit = x.args
    lanes = e.Ramp(base, p.const(1, base.dtype), x.dtype.lanes)
    return em.expr(e.LT(lanes, e.Broadcast(limit, x.dtype.lanes)))
