"""Vector statements lane by lane; what lies side by side is loaded and stored at once.

C[i:i + 4] = A[i:i + 4] * T.Broadcast(b, 4)      const vec<float, 4> a = *(const vec<float, 4>*)…;
                                          ->     vec<float, 4> out;
                                                 for (int lane = 0; lane < 4; ++lane)
                                                   out[lane] = a[lane] * b;
                                                 *(vec<float, 4>*)(C + i) = out;
"""

from __future__ import annotations

from typing import Any

from mlcnb.codegen.cuda.emit.expr import LANE, Emitter
from mlcnb.codegen.cuda.emit.types import has_vector
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import map_children, replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import BufferStore


def is_block(em: Emitter, x: BufferLoad | BufferStore) -> bool:
    """True if the lanes lie side by side in memory, at an address that one access may take."""
    index = x.indices[-1]
    kind = x.buffer.dtype.with_lanes(index.dtype.lanes)
    if x.predicate is not None or not isinstance(index, e.Ramp) or not has_vector(kind):
        return False
    if not p.is_const(index.stride, 1) or x.buffer.scope in ("local", "warp"):
        return False
    step, start = em.analyzer.modular_set(index.base)
    return step % index.lanes == 0 and start % index.lanes == 0


def is_copy(em: Emitter, x: BufferStore) -> bool:
    """True for a store of exactly what is loaded, both at once."""
    value = x.value
    return isinstance(value, BufferLoad) and is_block(em, value) and is_block(em, x)


class Lanes:
    """Takes one lane out of vector expressions.

    held: loads (or variables) whose vectors are in variables already.
    """

    def __init__(self, lane: e.PrimExpr, held: dict[Any, e.Var]) -> None:
        self.lane = lane
        self.held = held

    def of(self, x: Any) -> Any:
        """The value of the lane."""
        if not isinstance(x, e.PrimExpr) or x.dtype.lanes == 1:
            return x
        found = self.held.get(x)
        if found is not None:
            return e.Call(x.dtype.element, LANE, (found, self.lane))
        match x:
            case e.Ramp(base, stride):
                return p.add(base, p.multiply(p.cast(base.dtype, self.lane), stride))
            case e.Broadcast(value=value):
                return value
            case e.IntImm() | e.FloatImm():
                return replace(x, dtype=x.dtype.element)
            case e.Let(var, value, body):
                one = e.Var(var.name, var.dtype.element)
                wide = e.Broadcast(one, var.dtype.lanes) if var.dtype.lanes != 1 else one
                return e.Let(one, self.of(value), self.of(substitute(body, {var: wide})))
            case BufferLoad():
                return self.load(x)
            case e.Shuffle():
                return self.shuffle(x)
            case e.Var():
                return e.Call(x.dtype.element, LANE, (x, self.lane))
            case e.Cast(value=value):
                return e.Cast(x.dtype.element, self.of(value))
            case e.Call(op=op, args=args):
                return e.Call(x.dtype.element, op, tuple(self.of(a) for a in args))
            case _:
                return map_children(x, self.of)

    def load(self, x: BufferLoad) -> e.PrimExpr:
        """One element; 0 where the lane is masked."""
        plain = BufferLoad(x.buffer, tuple(self.of(i) for i in x.indices))
        if x.predicate is None:
            return plain
        return p.if_then_else(self.of(x.predicate), plain, p.const(0, plain.dtype))

    def shuffle(self, x: e.Shuffle) -> e.PrimExpr:
        """The lane that a shuffle puts in this place."""
        lane = p.as_int(self.lane)
        at = None if lane is None else p.as_int(x.indices[lane])
        if at is None:
            raise CodegenError("a shuffle of lanes needs fixed numbers")
        for vector in x.vectors:
            if at < vector.dtype.lanes:
                return Lanes(p.const(at), self.held).of(vector)
            at -= vector.dtype.lanes
        raise CodegenError("a shuffle takes a lane that its vectors do not have")
