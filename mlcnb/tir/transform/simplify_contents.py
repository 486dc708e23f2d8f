"""Simplify by what buffers hold: `propagate_knowns_…` of the config `tir.Simplify`.

A[0] = 0                                        A[0] = 0
if A[0] == 0:                            ->     B[0] = 1
    B[0] = 1

for i in range(16):                             for i in range(16):
    T.assume(i < 14 or A[i] == 0)                   T.assume(i < 14 or A[i] == 0)
for i in range(14, 16):                  ->     for i in range(14, 16):
    if A[i] == 0:                                   B[i] = 1
        B[i] = 1

One walk in the order of the program. What a store, a test or `T.assume` says of an element is a
`Fact`; a store to its memory ends it, unless it goes to another element for sure. What every
iteration of a loop says holds behind it for all of them. Nothing passes through what is not
understood: blocks, parallel loops and threads, calls with effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace as changed
from typing import Any

from mlcnb.core.node import Node, identical, map_children, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import substitute
from mlcnb.tir.transform import element_facts as facts
from mlcnb.tir.transform.simplify_known import KnowingSimplifier, conjuncts

#: loops whose iterations run one after the other
_IN_ORDER = (s.ForKind.SERIAL, s.ForKind.UNROLLED)
#: what runs any number of times, or in an order of its own
_OPAQUE = (s.While, s.Block, s.BlockRealize)


class ContentsSimplifier(KnowingSimplifier):
    """As its base, and knows what buffers hold."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.facts: list[facts.Fact] = []
        #: a pointer has a second name: nothing is known from there on
        self.is_blind = False

    # statements, in the order in which they run

    def visit_stmt(self, n: Any) -> Any:
        """A statement; afterwards `facts` are those that hold behind it."""
        if not _is_opaque(n):
            return super().visit_stmt(n)
        self.forget(n)
        done = super().visit_stmt(n)
        self.forget(n)
        return done

    def visit_let_stmt_(self, n: s.LetStmt) -> s.Stmt | None:
        """As of the base; nothing is said of the variable behind it."""
        if n.var.dtype.is_handle:
            self.is_blind, self.facts = True, []
        done = super().visit_let_stmt_(n)
        self.facts = [x for x in self.facts if not x.uses(n.var)]
        return done

    def visit_buffer_store_(self, n: s.BufferStore) -> s.Stmt | None:
        """As of the base; the element has another value behind it."""
        done = super().visit_buffer_store_(n)
        if isinstance(done, s.BufferStore):
            self.stored(done)
        return done

    def visit_evaluate_(self, n: s.Evaluate) -> s.Stmt | None:
        """As of the base; a call is a promise, or may do anything."""
        done = super().visit_evaluate_(n)
        if isinstance(done, s.Evaluate):
            self.evaluated(done)
        return done

    def visit_block_(self, n: s.Block) -> s.Block:
        """A block, of whose parts none knows what another one did."""

        def part(child: Any) -> Any:
            self.facts = []
            return self.child(child)

        return map_children(n, part)

    def visit_seq_stmt_(self, n: s.SeqStmt) -> s.Stmt | None:
        """One after the other; what is assumed holds until the end."""
        parts: list[s.Stmt] = []
        with ExitStack() as stack:
            for one in n.seq:
                part = self.visit_stmt(one)
                if part is not None:
                    parts.append(part)
                    for condition in facts.assumed(part):
                        stack.enter_context(self.given(condition))
        if identical(parts, n.seq):
            return n
        return s.seq(*parts) if parts else None

    def stored(self, n: s.BufferStore) -> None:
        """An element has another value now."""
        value = self.visit_expr(self.with_contents(n.value))
        self.facts = [x for x in self.facts if not self.may_touch(n, x)]
        if self.is_blind or n.predicate is not None or value.dtype.is_handle:
            return
        if facts.is_pure(value, *n.indices):
            self.facts += [facts.Fact(n.buffer, *each) for each in facts.lanes_of(n.indices, value)]

    def may_touch(self, n: s.BufferStore, fact: facts.Fact) -> bool:
        """Whether a store may change the element that a fact is about."""
        if n.buffer.data is not fact.buffer.data:
            return False
        if n.buffer is not fact.buffer or fact.ranges or n.predicate is not None:
            return True
        return not any(
            a.dtype == b.dtype and p.as_int(self.visit_expr(p.equal(a, b))) == 0
            for a, b in zip(n.indices, fact.indices, strict=True)
            if a.dtype.lanes == b.dtype.lanes == 1
        )

    def evaluated(self, n: s.Evaluate) -> None:
        """A call: a promise, or something that may do anything."""
        conditions = facts.assumed(n)
        for condition in conditions:
            self.facts += self.said(condition)
        if not conditions and has_effect(n.value):
            self.facts = []

    def forget(self, n: s.Stmt) -> None:
        """What a statement may do to memory is no longer known."""
        gone = facts.stored_in(n)
        self.facts = [] if gone is None else [x for x in self.facts if x.buffer.data not in gone]

    def visit_for_(self, n: s.For) -> s.Stmt | None:
        """Nothing that the body changes is known in it; what it says is known behind it."""
        if p.as_int(self.visit_expr(n.extent)) == 1:
            return super().visit_for_(n)
        restricted = self.not_yet_written(n)
        self.forget(n.body)
        before = self.facts
        self.facts = [*before, *restricted]
        done = super().visit_for_(n)
        kept = [x for x in before if any(x is y for y in self.facts)]
        made = [x for x in self.facts if not any(x is y for y in before)]
        general = [self.over_all(x, n) for x in made] if n.kind in _IN_ORDER else []
        self.facts = [*kept, *(x for x in general if x is not None)]
        return done

    def not_yet_written(self, loop: s.For) -> list[facts.Fact]:
        """Facts of memory that each iteration changes elsewhere, of the elements of this one."""
        gone, found = facts.stored_in(loop.body), []
        for fact in self.facts if gone is not None and loop.kind in _IN_ORDER else ():
            if fact.buffer.data in (gone or ()):
                stores = facts.stores_to(fact.buffer.data, loop.body)
                for axis, index in enumerate(fact.indices):
                    at = facts.own_place(stores, fact.buffer, axis, loop.loop_var)
                    if at is not None and at.dtype == index.dtype:
                        found.append(changed(fact, when=(*fact.when, p.equal(index, at))))
                        break
        return found

    def over_all(self, fact: facts.Fact, loop: s.For) -> facts.Fact | None:
        """What an iteration says, of all iterations; None where that does not follow."""
        stores = facts.stores_to(fact.buffer.data, loop.body)
        if facts.stored_in(loop.body) is None or len(stores) > 1:
            return None
        var = loop.loop_var
        if not fact.uses(var):
            runs = self.visit_expr(p.greater(loop.extent, p.const(0, loop.extent.dtype)))
            return fact if p.as_int(runs) == 1 else None
        places = (facts.own_place(stores, fact.buffer, axis, var) for axis in fact.axes)
        if stores and all(place is None for place in places):
            return None
        return changed(fact, ranges={**fact.ranges, var: Range(loop.min, loop.extent)})

    def sides(self, n: s.IfThenElse, condition: PrimExpr) -> list[s.Stmt | None]:
        """Behind a test stands what holds behind both sides, and what one side says under it."""
        before, ends = self.facts, []
        sides: list[s.Stmt | None] = []
        for test, side in ((condition, n.then_case), (p.logical_not(condition), n.else_case)):
            self.facts = [*before, *self.said(test)]
            sides.append(self.side(test, side))
            ends.append((test, self.facts))
        self.facts = [x for x in before if all(any(x is y for y in end) for _, end in ends)]
        for test, end in ends:
            if facts.is_pure(test):
                new = (x for x in end if not any(x is y for y in before))
                self.facts += [changed(x, when=(*x.when, test)) for x in new]
        return sides

    # what is said of elements, and used

    def said(self, condition: PrimExpr) -> list[facts.Fact]:
        """What a condition that holds says of elements: `A[i] == 0`, `i < 14 or A[i] == 0`."""
        found: list[facts.Fact] = []
        for part in () if self.is_blind else conjuncts(condition):
            when: list[PrimExpr] = []
            while isinstance(part, e.Or):
                pure, other = (part.a, part.b) if facts.is_pure(part.a) else (part.b, part.a)
                if not facts.is_pure(pure):
                    break
                when.append(self.visit_expr(p.logical_not(pure)))
                part = other
            if isinstance(part, e.EQ):
                sides = ((part.a, part.b), (part.b, part.a))
                found += [facts.fact_of(a, b, when) for a, b in sides if facts.is_said(a, b)]
        return found

    def decided(self, condition: PrimExpr) -> bool | None:
        """As of the base, also by what elements hold."""
        found = super().decided(condition)
        if found is not None or not self.facts:
            return found
        filled = self.with_contents(condition)
        return None if filled is condition else super().decided(self.visit_expr(filled))

    def with_contents(self, n: PrimExpr) -> PrimExpr:
        """An expression with the values of the elements that are known."""

        def rule(x: Node) -> Node | None:
            return self.content(x) if isinstance(x, BufferLoad) and x.predicate is None else None

        return rewrite(n, rule) if self.facts else n

    def content(self, n: BufferLoad) -> PrimExpr | None:
        """The value of an element, where it is known."""
        if any(i.dtype.lanes != 1 or not facts.is_pure(i) for i in n.indices):
            return None
        for fact in reversed(self.facts):
            if fact.buffer is n.buffer and fact.value.dtype == n.dtype:
                values = self.matched(fact, n.indices)
                if values is not None:
                    return self.visit_expr(substitute(fact.value, values))
        return None

    def matched(
        self, fact: facts.Fact, indices: tuple[PrimExpr, ...]
    ) -> dict[Var, PrimExpr] | None:
        """The values of a fact's variables for which it speaks of an element; None: it does not."""
        values: dict[Var, PrimExpr] = {}
        for pattern, index in zip(fact.indices, indices, strict=True):
            for var in fact.ranges:
                offset = facts.offset_from(pattern, var)
                if offset is None or var in values or index.dtype != var.dtype:
                    continue
                if not any(n in fact.ranges for n in walk(offset)):
                    values[var] = p.subtract(index, offset)
        if len(values) != len(fact.ranges):
            return None
        asked: list[PrimExpr] = []
        for pattern, index in zip(fact.indices, indices, strict=True):
            found = substitute(pattern, values)
            if found.dtype != index.dtype:
                return None
            asked.append(p.equal(found, index))
        for var, rng in fact.ranges.items():
            asked.append(p.less_equal(rng.min, values[var]))
            asked.append(p.less(values[var], p.add(rng.min, rng.extent)))
        asked += [substitute(x, values) for x in fact.when]
        decided = (KnowingSimplifier.decided(self, self.visit_expr(x)) for x in asked)
        return values if all(decided) else None

    def child(self, n: Any) -> Any:
        """As of the base; with `propagate_knowns_to_simplify_expressions` values are put in."""
        if isinstance(n, PrimExpr) and self.options["propagate_knowns_to_simplify_expressions"]:
            n = self.with_contents(n)
        return super().child(n)


def simplifier_of(options: Mapping[str, Any]) -> KnowingSimplifier:
    """What simplifies as the options of `tir.Simplify` ask for."""
    follows = any(value for name, value in options.items() if name.startswith("propagate_knowns"))
    return ContentsSimplifier(options) if follows else KnowingSimplifier(options)


def _is_opaque(n: Any) -> bool:
    """What the order of the program does not describe."""
    if isinstance(n, s.For):
        return n.kind not in _IN_ORDER
    return isinstance(n, _OPAQUE) or bound_axis(n) is not None
