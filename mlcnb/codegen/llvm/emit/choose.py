"""if_then_else: only the side that is chosen is evaluated.

T.if_then_else(c, A[i:i + 16], T.Broadcast(0, 16))      %p = select i1 %c, ptr %A_i, ptr @fill
                                                  ->    %v = load <16 x float>, ptr %p

A vector that is loaded, or else loaded from elsewhere or a constant, is one load whose address is
chosen: no jump, so that many of them stand side by side in an unrolled window. Other loads that
must not happen are jumped over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.index import index
from mlcnb.codegen.llvm.emit.memory import address, align_of
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.tir.buffer import BufferLoad

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: elements that lie in memory as registers hold them
PLAIN = frozenset("float32 float64 int32 int64 uint32 uint64".split())


def if_then_else(em: Emitter, x: e.Call) -> str:
    """Only the chosen side is evaluated, unless both are harmless."""
    condition, chosen, other = x.args
    if condition.dtype.lanes != 1 or not (_may_trap(chosen) or _may_trap(other)):
        return em.expr(e.Select(condition, chosen, other))
    if x.dtype.lanes > 1 and _has_address(chosen) and _has_address(other):
        return _chosen_address(em, x)
    return _jump(em, x)


def _jump(em: Emitter, x: e.Call) -> str:
    condition, chosen, other = x.args
    f, kind = em.f, em.type(x.dtype)
    then, otherwise, done = f.label("then"), f.label("else"), f.label("done")
    f.do(f"br i1 {em.expr(condition)}, label %{then}, label %{otherwise}")
    f.place(then)
    a = em.expr(chosen)
    then_end = f.block
    f.do(f"br label %{done}")
    f.place(otherwise)
    b = em.expr(other)
    else_end = f.block
    f.do(f"br label %{done}")
    f.place(done)
    return f.emit(f"phi {kind} [ {a}, %{then_end} ], [ {b}, %{else_end} ]")


def _may_trap(x: e.PrimExpr) -> bool:
    return any(isinstance(n, BufferLoad | e.Call | e.Div | e.Mod | e.FloorDiv) for n in walk(x))


def _has_address(x: e.PrimExpr) -> bool:
    """True for lanes that lie together in memory at an index that is plain arithmetic, and for one
    number in all lanes.
    """
    if isinstance(x, e.Broadcast):
        return isinstance(x.value, e.FloatImm | e.IntImm) and str(x.value.dtype) in PLAIN
    if not isinstance(x, BufferLoad) or x.predicate is not None or len(x.indices) != 1:
        return False
    (place,) = x.indices
    together = isinstance(place, e.Ramp) and getattr(place.stride, "value", 0) == 1
    arithmetic = not any(isinstance(n, BufferLoad | e.Call | e.Div | e.Mod) for n in walk(place))
    return together and arithmetic and str(x.buffer.dtype) in PLAIN and _divides_safely(place)


def _divides_safely(x: e.PrimExpr) -> bool:
    divisions = (n for n in walk(x) if isinstance(n, e.FloorDiv | e.FloorMod))
    return all(isinstance(n.b, e.IntImm) and n.b.value for n in divisions)


def _chosen_address(em: Emitter, x: e.Call) -> str:
    condition, chosen, other = x.args
    one, two = _address(em, chosen), _address(em, other)
    pointer = em.f.emit(f"select i1 {em.expr(condition)}, ptr {one}, ptr {two}", "p")
    return em.f.emit(f"load {t.memory_type(x.dtype)}, ptr {pointer}, align {align_of(x.dtype)}")


def _address(em: Emitter, x: e.PrimExpr) -> str:
    if isinstance(x, BufferLoad):
        return address(em, x.buffer, index(em, x.indices[0].base))  # type: ignore[attr-defined]
    name = f"fill.{x.dtype}.{em.expr(x.value)}"  # type: ignore[attr-defined]
    vector = f"{t.memory_type(x.dtype)} {em.expr(x)}"
    return em.module.declare(name, f"@{name} = private unnamed_addr constant {vector}, align 64")
