"""VectorizeLoop: a vectorized loop becomes one statement on vectors.

for j in T.vectorized(16):               ->     C[k:k + 16] = A[k:k + 16] * T.Broadcast(b, 16)
    C[k + j] = A[k + j] * b

Where there is no vector form (a branch on the lane, a call with effects) the loop stays, serial; so
does one whose lanes may read what others write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.arith import simplify
from mlcnb.core.node import Node, identical, map_children, replace, rewrite, walk
from mlcnb.core.shared import distinct, places
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.carried import Carried
from mlcnb.tir.analysis.effects import LANEWISE, REPEATABLE
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.index_check import of_lanes

#: places of the nodes of a statement on vectors: conditions inside of one another, each of which
#: masks what stands in the next one, make more of a few lines than anybody could compile
MOST_PLACES = 1 << 16


class NoVectorForm(Exception):
    """Raised inside when a statement cannot be widened."""


def vectorize_loops(func: PrimFunc) -> PrimFunc:
    """`func` with vectorized loops of constant extent turned into vector statements."""
    return func.with_body(rewrite(func.body, vectorized))


def vectorized(n: Node) -> Node | None:
    """A vectorized loop as statements on vectors, or else serial; None for anything else."""
    if not isinstance(n, s.For) or n.kind is not s.ForKind.VECTORIZED:
        return None
    lanes = p.as_int(n.extent)
    if lanes is None or lanes == 1 or is_left_early(n.body):
        return replace(n, kind=s.ForKind.SERIAL)
    try:
        if not are_lanes_apart(n):
            raise NoVectorForm
        made: Node = Widen(n, lanes).stmt(n.body)
        if places(made) > MOST_PLACES:
            raise NoVectorForm
        return made
    except NoVectorForm:
        return replace(n, kind=s.ForKind.SERIAL)


def are_lanes_apart(loop: s.For) -> bool:
    """True if no lane touches an element that another one writes, or else in the same order.

    One store, outside of inner loops, may write an element from several lanes: the last one wins,
    as in the loop.
    """
    stores = [n for n in walk(loop) if isinstance(n, s.BufferStore)]
    loads = {n.buffer.data for n in walk(loop) if isinstance(n, BufferLoad)}
    written = [n.buffer for n in stores]
    twice = {b.data for i, b in enumerate(written) if b.data in {x.data for x in written[:i]}}
    inner = any(isinstance(n, s.For | s.While) for n in walk(loop.body))
    shared = {b.data: b for b in written if inner or b.data in loads | twice}
    if not shared:
        return True
    return Carried(loop, shared.values()).are_apart(shared, loop)


class Widen:
    """Rewrites a loop body for all lanes of the loop variable at once.

    many: how many lanes as Ramp and Broadcast hold them; `lanes`: as dtypes count them.
    """

    def __init__(self, loop: s.For, many: Any) -> None:
        self.var = loop.loop_var
        self.many = many
        one = p.const(1, loop.loop_var.dtype)
        self.ramp = e.Ramp(p.cast(loop.loop_var.dtype, loop.min), one, many)
        self.lanes = self.ramp.dtype.lanes
        self.start = p.cast(loop.loop_var.dtype, loop.min)
        self.lets: dict[e.Var, e.Var] = {}

    def stmt(self, n: Any) -> Any:
        """A statement for all lanes."""
        match n:
            case s.BufferStore():
                return self.store(n)
            case s.IfThenElse():
                return self.branch(n)
            case s.SeqStmt():
                return map_children(n, self.stmt)
            case s.For():
                return self.loop(n)
            case s.LetStmt():
                return self.let(n)
            case s.Evaluate(value) if self.expr(value) is value:
                return n
            case _:
                raise NoVectorForm

    def store(self, n: s.BufferStore) -> s.Stmt:
        """One store of a vector; of a number, if no lane decides anything about it."""
        if n.predicate is not None:
            raise NoVectorForm
        indices = tuple(self.expr(i) for i in n.indices)
        value = self.expr(n.value)
        if all(i.dtype.lanes == 1 for i in indices):
            loads = [x for x in distinct(value) if isinstance(x, BufferLoad)]
            if value.dtype.lanes != 1 or any(x.buffer.data is n.buffer.data for x in loads):
                raise NoVectorForm
            return n
        self.only_last_is_vector(indices)
        if isinstance(indices[-1], e.Ramp) or indices[-1].dtype.lanes == self.lanes:
            return replace(n, indices=indices, value=self.widen(value))
        raise NoVectorForm

    def only_last_is_vector(self, indices: tuple[e.PrimExpr, ...]) -> None:
        """Refuses lanes in any index but the last."""
        if any(i.dtype.lanes != 1 for i in indices[:-1]):
            raise NoVectorForm

    def branch(self, n: s.IfThenElse) -> s.Stmt:
        """A test that all lanes share stays; one on the lane masks the store behind it."""
        condition = self.expr(n.condition)
        if condition.dtype.lanes == 1:
            other = None if n.else_case is None else self.stmt(n.else_case)
            return s.IfThenElse(condition, self.stmt(n.then_case), other, n.span)
        inner = n.then_case
        if isinstance(inner, s.IfThenElse) and n.else_case is inner.else_case is None:
            return self.stmt(replace(inner, condition=e.And(n.condition, inner.condition)))
        if n.else_case is not None or not isinstance(inner, s.BufferStore):
            raise NoVectorForm
        store = self.store(inner)
        if store is inner or not isinstance(store, s.BufferStore):
            raise NoVectorForm
        first = simplify(substitute(n.condition, {self.var: self.start}))
        if p.is_const(first, 1):
            return masked(store, condition, some_lane=True)
        if _loads_scalar(store.value) and _is_lost_at_the_end(condition):
            return s.IfThenElse(first, masked(store, condition, some_lane=True), span=n.span)
        return masked(store, condition)

    def loop(self, n: s.For) -> s.Stmt:
        """An inner loop that is the same in all lanes."""
        if self.expr(n.min) is not n.min or self.expr(n.extent) is not n.extent:
            raise NoVectorForm
        return replace(n, body=self.stmt(n.body))

    def let(self, n: s.LetStmt) -> s.Stmt:
        """A variable that differs by lane becomes a vector."""
        value = self.expr(n.value)
        if value.dtype.lanes == 1:
            return replace(n, value=value, body=self.stmt(n.body))
        wide = e.Var(n.var.name, value.dtype)
        self.lets[n.var] = wide
        return s.LetStmt(wide, value, self.stmt(n.body), n.span)

    def let_in(self, n: e.Let) -> e.PrimExpr:
        """The same within an expression."""
        value = self.expr(n.value)
        if value.dtype.lanes == 1:
            body = self.expr(n.body)
            return n if value is n.value and body is n.body else e.Let(n.var, value, body)
        wide = e.Var(n.var.name, value.dtype)
        self.lets[n.var] = wide
        return e.Let(wide, value, self.expr(n.body))

    def widen(self, x: e.PrimExpr) -> e.PrimExpr:
        """A number for all lanes."""
        if x.dtype.lanes == self.lanes:
            return x
        if x.dtype.lanes != 1:
            raise NoVectorForm
        return e.Broadcast(x, self.many)

    def expr(self, n: Any) -> Any:
        """An expression in all lanes; itself where it is the same in all of them."""
        if isinstance(n, e.Var):
            return self.ramp if n is self.var else self.lets.get(n, n)
        if isinstance(n, e.Add | e.Sub | e.Mul):
            return self.linear(n)
        if isinstance(n, BufferLoad):
            return self.load(n)
        if isinstance(n, e.And | e.Or):
            return self.junction(n)
        if isinstance(n, e.Call):
            return self.call(n)
        if isinstance(n, e.Let):
            return self.let_in(n)
        if isinstance(n, e.Shuffle | e.Ramp | e.Broadcast):
            if map_children(n, self.expr) is not n:
                raise NoVectorForm
            return n
        return self.generic(n)

    def linear(self, n: Any) -> e.PrimExpr:
        """Sums and products of a ramp with scalars stay ramps."""
        a, b = self.expr(n.a), self.expr(n.b)
        if a is n.a and b is n.b:
            return n
        ramp, scalar = (a, b) if isinstance(a, e.Ramp) else (b, a)
        if isinstance(ramp, e.Ramp) and scalar.dtype.lanes == 1 and not n.dtype.is_float:
            if isinstance(n, e.Add):
                return e.Ramp(ramp.base + scalar, ramp.stride, ramp.lanes)
            if isinstance(n, e.Mul):
                return e.Ramp(ramp.base * scalar, ramp.stride * scalar, ramp.lanes)
            if ramp is a:
                return e.Ramp(ramp.base - scalar, ramp.stride, ramp.lanes)
        return type(n)(self.widen(a), self.widen(b))

    def junction(self, n: Any) -> e.PrimExpr:
        """`and`, `or`: the right side loads in the lanes that the left one leaves open."""
        a, b = self.expr(n.a), self.expr(n.b)
        if a is n.a and b is n.b:
            return n
        a, b = self.widen(a), self.widen(b)
        if isinstance(n, e.And) and p.is_const(a, 1):
            return e.And(a, b)
        return type(n)(a, _mask_loads(b, a if isinstance(n, e.And) else p.logical_not(a)))

    def load(self, n: BufferLoad) -> e.PrimExpr:
        """A load of a vector."""
        if n.predicate is not None:
            raise NoVectorForm
        indices = tuple(self.expr(i) for i in n.indices)
        if all(i is j for i, j in zip(indices, n.indices, strict=True)):
            return n
        self.only_last_is_vector(indices)
        return replace(n, indices=indices)

    def call(self, n: e.Call) -> e.PrimExpr:
        """A call that works lane by lane."""
        args = tuple(self.expr(a) for a in n.args)
        if identical(args, n.args):
            if n.op not in REPEATABLE:  # each lane calls it
                raise NoVectorForm
            return n
        if n.op == "tir.if_then_else":
            return self.conditional(n, args)
        if n.op == "tir.reinterpret" and n.args[0].dtype.lanes == 1:
            return e.Call(n.dtype.with_lanes(self.lanes), n.op, args)
        if n.op == "tir.check_index" and args[1] is n.args[1]:
            return e.Call(n.dtype.with_lanes(self.lanes), n.op, (self.widen(args[0]), *args[1:]))
        if n.op not in LANEWISE:
            raise NoVectorForm
        return e.Call(n.dtype.with_lanes(self.lanes), n.op, tuple(self.widen(a) for a in args))

    def conditional(self, n: e.Call, args: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
        """A condition on the lane masks the loads of the chosen side; a scalar one stays lazy."""
        condition, chosen, other = args
        if condition.dtype.lanes == 1:
            both = (condition, self.widen(chosen), self.widen(other))
            return e.Call(n.dtype.with_lanes(self.lanes), n.op, both)
        chosen = _mask_loads(self.widen(chosen), condition)
        other = _mask_loads(self.widen(other), p.logical_not(condition))
        return e.Select(condition, chosen, other)

    def generic(self, n: Any) -> Any:
        """Operands widened to one another."""
        new = map_children(n, self.expr)
        if new is n:
            return n
        if isinstance(n, e.Cast):
            return e.Cast(n.dtype.with_lanes(self.lanes), new.value)
        return map_children(new, self.widen)


def _is_lost_at_the_end(condition: e.PrimExpr) -> bool:
    """True if no lane is let through where the first one is not: `ramp < limit`, or one for all."""
    match condition:
        case e.And(a, b):
            return _is_lost_at_the_end(a) and _is_lost_at_the_end(b)
        case e.LT(e.Ramp(_, stride, _), e.Broadcast()) | e.LE(e.Ramp(_, stride, _), e.Broadcast()):
            return (p.as_int(stride) or 0) > 0
    return isinstance(condition, e.Broadcast)


def _loads_scalar(value: e.PrimExpr) -> bool:
    """True if a number that all lanes share is loaded."""
    return any(isinstance(n, BufferLoad) and n.dtype.lanes == 1 for n in distinct(value))


def masked(store: s.BufferStore, condition: e.PrimExpr, some_lane: bool = False) -> s.BufferStore:
    """The store under a mask; `some_lane`: it lets one through at least, if it is reached."""
    value = _mask_loads(store.value, condition, some_lane)
    indices = tuple(_mask_loads(i, condition, some_lane) for i in store.indices)
    return replace(store, value=value, indices=indices, predicate=condition)


def _mask_loads(value: e.PrimExpr, condition: e.PrimExpr, some_lane: bool = False) -> e.PrimExpr:
    """The value where only lanes that the condition lets through load, and divide.

    What all lanes share is loaded only where `some_lane` is known to want it, or from a place that
    is there in any case. What the condition itself loads is loaded in the lanes in which it does.
    """
    there = list(_loaded_by(condition))

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad) and n.dtype.lanes == condition.dtype.lanes:
            for other in there if n.predicate is None else ():
                if structural_equal(n, replace(other, predicate=None)):
                    return other
            both = condition if n.predicate is None else e.And(n.predicate, condition)
            return replace(n, predicate=both)
        if isinstance(n, DIVIDING) and n.dtype.is_integer and not _is_number(n.b):
            return _masked_division(n, condition)
        if isinstance(n, e.Call) and n.op == "tir.check_index":
            return _masked_check(n, condition, some_lane)
        if isinstance(n, BufferLoad) and n.dtype.lanes == 1 and not some_lane:
            if not _is_there(n):
                raise NoVectorForm
        return None

    return rewrite(value, rule)


def _loaded_by(condition: e.PrimExpr) -> Iterator[BufferLoad]:
    """Loads that a condition makes in all lanes, or in all for which it may hold: of `a and b`,
    those of b where a holds.
    """
    loads = [n for n in distinct(condition) if isinstance(n, BufferLoad)]
    yield from (n for n in loads if n.predicate is None)
    while isinstance(condition, e.And):
        yield from (n for n in loads if n.predicate is condition.a)
        condition = condition.a


def _is_there(n: BufferLoad) -> bool:
    """True for an element with a number in a buffer of known size."""
    pairs = [(p.as_int(i), p.as_int(d)) for i, d in zip(n.indices, n.buffer.shape, strict=True)]
    return all(i is not None and d is not None and 0 <= i < d for i, d in pairs)


def _masked_check(n: e.Call, condition: e.PrimExpr, some_lane: bool) -> e.Call:
    """Of these lanes only; what all lanes share is checked where some lane wants it."""
    if n.dtype.lanes != condition.dtype.lanes:
        if not some_lane:
            raise NoVectorForm
        return n
    return of_lanes(n, condition)


def _masked_division(n: Any, condition: e.PrimExpr) -> e.PrimExpr:
    """The other lanes divide by one."""
    if n.dtype.lanes != condition.dtype.lanes:
        raise NoVectorForm
    one = e.Broadcast(p.const(1, n.b.dtype.element), n.dtype.lanes)
    return replace(n, b=e.Select(condition, n.b, one))


def _is_number(x: e.PrimExpr) -> bool:
    """True for a constant that can be divided by."""
    value = x.value if isinstance(x, e.Broadcast) else x
    return isinstance(value, e.IntImm) and value.value != 0


class VectorizeLoop(PrimFuncPass):
    """Turn vectorized loops of constant extent into statements on vectors.

    enable_vectorize: if False (or with `tir.disable_vectorize` in the context), they become serial.

    A test on the lane becomes a mask. With `tir.enable_buffer_level_predication` in the context,
    and for a target with vectors of scalable length, see `mlcnb.tir.transform.vectorize_options`.
    """

    enable_vectorize: bool = True

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `vectorize_loops`."""
        from mlcnb.tir.transform.vectorize_options import PREDICATION, Asked, vectorize_as_asked

        if not self.enable_vectorize or ctx.get_config("tir.disable_vectorize"):
            return func.with_body(rewrite(func.body, _serial))
        asked = Asked(ctx.config.get(PREDICATION), func.attrs.get("target") or Target.current())
        return func.with_body(vectorize_as_asked(func.body, asked))


def _serial(n: Node) -> Node | None:
    if isinstance(n, s.For) and n.kind is s.ForKind.VECTORIZED:
        return replace(n, kind=s.ForKind.SERIAL)
    return None
