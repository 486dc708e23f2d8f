"""Checks of indices: `T.check_index(index, extent, where)` stops the kernel (see `status`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit.index import index, widened
from mlcnb.ir import expr as e
from mlcnb.tir.index_check import message

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def check_index(em: Emitter, x: e.Call) -> str:
    """The index as a value of its dtype, after its test."""
    if x.dtype.lanes != 1:
        return _check_lanes(em, x)
    place = checked_index(em, x)
    return place if x.dtype.bits == 64 else em.f.emit(f"trunc i64 {place} to {em.type(x.dtype)}")


def checked_index(em: Emitter, x: e.Call) -> str:
    """The i64 operand of the index, after its test."""
    place, extent = index(em, x.args[0]), index(em, x.args[1])
    outside = em.f.emit(f"icmp uge i64 {place}, {extent}")
    em.stop_if(outside, em.module.status(message(x)), lambda: _leave(em, place, extent))
    return place


def _check_lanes(em: Emitter, x: e.Call) -> str:
    """As `check_index`, of a vector of indices; the extent is one number, or one for each."""
    lanes = x.dtype.lanes
    wide = f"<{lanes} x i64>"
    value = em.expr(x.args[0])
    places = widened(em, value, x.args[0].dtype)
    limit = _limits(em, x.args[1], lanes)
    outside = em.f.emit(f"icmp uge {wide} {places}, {limit}")

    def leave() -> None:
        mask = em.f.emit(f"bitcast <{lanes} x i1> {outside} to i{lanes}")
        count = em.intrinsic(f"llvm.cttz.i{lanes}", f"i{lanes}", (f"i{lanes}", "i1 immarg"))
        lane = em.f.emit(f"call i{lanes} {count}(i{lanes} {mask}, i1 true)")
        fault = (em.f.emit(f"extractelement {wide} {v}, i{lanes} {lane}") for v in (places, limit))
        _leave(em, *fault)

    em.stop_if(em.any_lane(outside, lanes), em.module.status(message(x)), leave)
    return value


def _limits(em: Emitter, extent: e.PrimExpr, lanes: int) -> str:
    """The extent for each lane, as i64."""
    if extent.dtype.lanes == 1:
        return em.raw_splat(index(em, extent), "i64", lanes)
    return widened(em, em.expr(extent), extent.dtype)


def _leave(em: Emitter, place: str, extent: str) -> None:
    """Where the check failed, store the two numbers for who reads the status."""
    em.module.declare("mlcnb_fault", "@mlcnb_fault = external global [2 x i64]")
    second = em.f.emit("getelementptr i64, ptr @mlcnb_fault, i64 1")
    em.f.do(f"store atomic i64 {place}, ptr @mlcnb_fault monotonic, align 8")
    em.f.do(f"store atomic i64 {extent}, ptr {second} monotonic, align 8")
