"""Vectorizing as it is asked for: TVM's option for tests on the lane, and scalable vectors.

for j in T.vectorized(4):                B.vstore([T.Ramp(i * 4, 1, 4)], T.Broadcast(1, 4),
    if i * 4 + j < n:              ->       predicate=T.get_active_lane_mask("boolx4", i * 4, n))
        B[i * 4 + j] = 1                                with tir.enable_buffer_level_predication

for j in T.vectorized(4):                for j_s in range(4):
    if j <= n:                     ->        if j_s <= n:
        B[j] = 1                                 B[j_s] = 1
    C[j] = 2                             C[0:4] = T.Broadcast(2, 4)

for j in T.vectorized(T.vscale() * 4):   B[0:T.vscale() * 4] = T.Broadcast(1, T.vscale() * 4)
    B[j] = 1                       ->                    for a target with such vectors (SVE, RVV)

A statement that has no such form becomes a loop of its own; lanes touch nothing of each other's.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

from mlcnb.core.node import map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.target import Target
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import map_bodies, substitute
from mlcnb.tir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from mlcnb.tir.transform.vectorize_loop import (
    NoVectorForm,
    Widen,
    are_lanes_apart,
    masked,
    vectorized,
)

PREDICATION = "tir.enable_buffer_level_predication"


@dataclass(frozen=True)
class Asked:
    """predication: the option, None where it is not set; target: what code is made for."""

    predication: bool | None = None
    target: Target | None = None

    @property
    def is_scalable(self) -> bool:
        """Whether vectors may be as long as the machine has them."""
        return self.target is not None and self.target.has_scalable_vectors

    @property
    def with_lane_masks(self) -> bool:
        """Whether a test on the lane becomes a mask of lanes that are active."""
        return self.is_scalable if self.predication is None else self.predication

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for: tests on the lane become masks of their own."""
        return self.predication is None and not self.is_scalable


def vectorize_as_asked(n: Any, asked: Asked) -> Any:
    """A statement with its vectorized loops turned into vector statements."""
    if isinstance(n, AttrStmt) and n.attr_key == "target" and isinstance(n.node, Target):
        return replace(n, body=vectorize_as_asked(n.body, changed(asked, target=n.node)))
    done = map_bodies(n, lambda x: vectorize_as_asked(x, asked))
    if asked.is_plain or not isinstance(done, For) or done.kind is not ForKind.VECTORIZED:
        return vectorized(done) or done
    many: Any = p.as_int(done.extent)
    if many is None and asked.is_scalable and e.vscale_factor(done.extent):
        many = done.extent
    if many in (None, 1) or is_left_early(done.body) or not are_lanes_apart(done):
        return replace(done, kind=ForKind.SERIAL)
    try:
        return _Lanes(done, many, asked.with_lane_masks).stmt(done.body)
    except NoVectorForm:
        return replace(done, kind=ForKind.SERIAL)


class _Lanes(Widen):
    """Tests on the lane are masks of active lanes, or make a loop of their statement."""

    def __init__(self, loop: For, many: Any, with_masks: bool) -> None:
        super().__init__(loop, many)
        self.of = loop
        self.with_masks = with_masks

    def stmt(self, n: Any) -> Any:
        """As of the base; what has no vector form is a loop."""
        try:
            return super().stmt(n)
        except NoVectorForm:
            if has_effect(n) or any(isinstance(x, e.Var) and x in self.lets for x in walk(n)):
                raise
            return self.scalar(n)

    def scalar(self, n: Stmt) -> For:
        """The statement for one lane after the other."""
        var = e.Var(f"{self.var.name}_s", self.var.dtype)
        body = substitute(n, {self.var: var})
        return replace(self.of, loop_var=var, kind=ForKind.SERIAL, body=body)

    def branch(self, n: IfThenElse) -> Stmt:
        """A test that all lanes share stays; `ramp < limit` says how many lanes are active."""
        condition = self.expr(n.condition)
        if condition.dtype.lanes == 1:
            other = None if n.else_case is None else self.stmt(n.else_case)
            return IfThenElse(condition, self.stmt(n.then_case), other, n.span)
        if not self.with_masks or n.else_case is not None:
            raise NoVectorForm
        return self.predicated(n.then_case, _active_lanes(condition))

    def predicated(self, n: Stmt, mask: e.PrimExpr) -> Stmt:
        """Stores of vectors of vectors, all under one mask."""
        if isinstance(n, SeqStmt):
            return map_children(n, lambda x: self.predicated(x, mask))
        store = self.store(n) if isinstance(n, BufferStore) else n
        if store is n or not isinstance(store, BufferStore):
            raise NoVectorForm
        loads = [x for x in walk(store) if isinstance(x, BufferLoad)]
        if any(x.dtype.lanes != self.lanes for x in loads):
            raise NoVectorForm
        return masked(store, mask)

    def conditional(self, n: e.Call, args: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
        """A choice that all lanes share stays one."""
        if args[0].dtype.lanes != 1:
            raise NoVectorForm
        return super().conditional(n, args)


def _active_lanes(condition: e.PrimExpr) -> e.PrimExpr:
    """`base + lane < limit` as a mask."""
    match condition:
        case e.LT(e.Ramp(base, e.IntImm(1), _), e.Broadcast(limit, _)):
            return e.Call(condition.dtype, "tir.get_active_lane_mask", (base, limit))
    raise NoVectorForm
