"""Simplify: indices, bounds and conditions in their shortest form, under the bounds of the loops.

for i in range(4):                              for i in range(4):
    if i < 4:                            ->         A[i] = B[i * 8]
        A[(i * 8 + 0) // 8] = B[i * 8]
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mlcnb.arith import Analyzer, ModularSet
from mlcnb.arith.sum import is_index
from mlcnb.core.node import Node, identical, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import PyStmtExprMutator, is_nothing, substitute
from mlcnb.tir.stmt import (
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)

#: what is known of a number of which nothing is
NOTHING = ModularSet(1, 0)


def simplify_stmt(func: PrimFunc) -> PrimFunc:
    """`func` with integer expressions simplified, decided branches taken, empty loops removed."""
    body = Simplifier().visit_stmt(func.body)
    return func.with_body(body if body is not None else Evaluate(p.const(0)))


class Simplifier(PyStmtExprMutator):
    """One walk over a function; statements that come to nothing are None."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def visit_inside(self, n: Any) -> Any:
        """A node with what is inside simplified."""
        return map_children(n, self.child)

    def visit_seq_stmt_(self, n: SeqStmt) -> Stmt | None:
        """What is left of the statements, in order."""
        parts = [part for part in map(self.visit_stmt, n.seq) if part is not None]
        return n if identical(parts, n.seq) else (seq(*parts) if parts else None)

    def visit_evaluate_(self, n: Evaluate) -> Stmt | None:
        """A constant does nothing."""
        return None if is_nothing(n) else self.visit_inside(n)

    def child(self, n: Any) -> Any:
        """Whatever stands in a node, simplified."""
        if isinstance(n, Stmt):
            done = self.visit_stmt(n)
            return Evaluate(p.const(0)) if done is None else done
        if isinstance(n, e.PrimExpr):
            return self.visit_expr(n)
        return n if isinstance(n, Buffer) else map_children(n, self.child)

    def visit_expr(self, n: e.PrimExpr) -> e.PrimExpr:
        """An expression in its short form; of floats, the indices and tests inside."""
        if n.dtype.is_float or n.dtype.is_handle:
            return chosen(map_children(n, self.child)) if not isinstance(n, e.Var) else n
        return self.analyzer.simplify(n)

    def visit_for_(self, n: For) -> Stmt | None:
        """A loop, its variable in bounds; none where it never runs, its body where it runs once."""
        start, extent = self.visit_expr(n.min), self.visit_expr(n.extent)
        if p.as_int(extent) == 0:
            return None
        if p.as_int(extent) == 1 and n.kind is not ForKind.THREAD_BINDING and not n.annotations:
            if not is_left_early(n.body):
                return self.visit_stmt(substitute(n.body, {n.loop_var: start}))
        self.analyzer.bind(n.loop_var, e.Range(start, extent))
        body = self.visit_stmt(n.body)
        return None if body is None else replace(n, min=start, extent=extent, body=body)

    def visit_if_then_else_(self, n: IfThenElse) -> Stmt | None:
        """The side that is taken, where that is known; else each under its condition."""
        condition = self.visit_expr(n.condition)
        decided = self.decided(condition)
        if decided is not None:
            taken = n.then_case if decided else n.else_case
            return None if taken is None else self.visit_stmt(taken)
        return branch(n, condition, *self.sides(n, condition))

    def sides(self, n: IfThenElse, condition: e.PrimExpr) -> list[Stmt | None]:
        """What is left of both sides of a test, each where it is taken."""
        pairs = ((condition, n.then_case), (p.logical_not(condition), n.else_case))
        return [self.side(test, side) for test, side in pairs]

    def side(self, test: e.PrimExpr, n: Stmt | None) -> Stmt | None:
        """What is left of a statement where a test holds."""
        if n is None:
            return None
        with self.given(test):
            return self.visit_stmt(n)  # type: ignore[no-any-return]

    def decided(self, condition: e.PrimExpr) -> bool | None:
        """Whether a condition holds, where that can be told."""
        return bool(condition.value) if isinstance(condition, e.IntImm) else None

    def given(self, condition: e.PrimExpr) -> AbstractContextManager[None]:
        """Inside, the condition holds: of no use here."""
        return nullcontext()

    def visit_let_stmt_(self, n: LetStmt) -> Stmt | None:
        """A variable of a constant is replaced by it."""
        value = self.child(n.value)
        if isinstance(value, e.IntImm | e.FloatImm):
            return self.visit_stmt(substitute(n.body, {n.var: value}))
        multiples = self.analyzer.modular_set(value) if is_index(n.var.dtype) else NOTHING
        if multiples.coeff > 1:
            self.analyzer.update(n.var, multiples)
        body = self.visit_stmt(n.body)
        if multiples.coeff > 1:  # copies of a body, as of a loop written out, share the variable
            self.analyzer.update(n.var, NOTHING)
        return None if body is None else replace(n, value=value, body=body)


def branch(
    n: IfThenElse, condition: e.PrimExpr, then: Stmt | None, other: Stmt | None
) -> Stmt | None:
    """The branch `n` with new parts; None where neither side does anything."""
    if then is not None:
        return replace(n, condition=condition, then_case=then, else_case=other)
    return other and IfThenElse(p.logical_not(condition), other, span=n.span)


def chosen(n: e.PrimExpr) -> e.PrimExpr:
    """The side of an if_then_else or a Select that a decided condition takes; else `n`."""
    match n:
        case e.Call(_, "tir.if_then_else", (e.IntImm(held), yes, no)):
            return yes if held else no
        case e.Select(e.IntImm(held), yes, no):
            return yes if held else no
        case _:
            return n


def plain_indices(body: Stmt) -> Stmt:
    """A statement with simplified indices of local buffers that are found by divisions.

    (i * 16 + tx) // 4 % 4 with tx of 0 to 3 is i % 4: of use to who asks for a thread's own part.
    """
    analyzer = Analyzer()
    wanted = set()
    for n in walk(body):
        if isinstance(n, For):
            analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
        elif isinstance(n, BufferLoad | BufferStore) and n.buffer.scope == "local" and _divides(n):
            wanted.add(n.buffer)
    if not wanted:
        return body

    def rule(n: Node) -> Node | None:
        if isinstance(n, BufferLoad | BufferStore) and n.buffer in wanted:
            return replace(n, indices=tuple(map(analyzer.simplify, n.indices)))
        return None

    return rewrite(body, rule, enter=lambda n: n if isinstance(n, Buffer) else None)


def _divides(n: Any) -> bool:
    return any(isinstance(x, e.FloorDiv | e.FloorMod) for i in n.indices for x in walk(i))


class Simplify(PrimFuncPass):
    """Simplify integer expressions under the bounds of the loops; take decided branches.

    What is known at a place is used there: the tests around it, and the values of variables. More
    is asked for by `PassContext(config={"tir.Simplify": {...}})`.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `mlcnb.tir.transform.simplify_known`."""
        from mlcnb.tir.transform.simplify_contents import simplifier_of
        from mlcnb.tir.transform.simplify_known import sizes_of

        simplifier = simplifier_of(ctx.get_config("tir.Simplify"))
        with simplifier.analyzer.constraint(*sizes_of(func)):
            body = simplifier.visit_stmt(func.body)
        return func.with_body(body if body is not None else Evaluate(p.const(0)))
