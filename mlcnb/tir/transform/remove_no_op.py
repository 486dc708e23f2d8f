"""RemoveNoOp: statements that do nothing are gone.

for i in range(8):                              for i in range(8):
    if i < 4:                                       C[i] = A[i]
        T.evaluate(0)                    ->
    C[i] = A[i]
    A[i] = A[i]
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer, const_bounds
from mlcnb.core.node import Node, children, nodes_in, replace, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferLoad, reads_memory
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import (
    NOTHING,
    PyStmtExprMutator,
    heads,
    is_nothing,
    map_bodies,
    substitute,
    taken,
)
from mlcnb.tir.transform.overwritten import remove_overwritten


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """`func` without statements that have no effect, and without what only they need."""
    used = _uses(func.body)
    bounds = _loop_bounds(func.body)
    return func.with_body(rewrite(func.body, lambda n: _remove(n, used, bounds), enter=_keep))


def _loop_bounds(body: Node) -> dict[e.Var, Any]:
    """What the variables of loops may be, where an extent is not known: such loops may be empty."""
    loops = [n for n in statements(body) if isinstance(n, s.For)]
    if all(isinstance(n.extent, e.IntImm) for n in loops):
        return {}
    return {n.loop_var: e.Range(n.min, n.extent) for n in loops}


def _first(effect: s.Stmt, rest: s.Stmt) -> s.Stmt:
    return effect if is_nothing(rest) else s.seq(effect, rest)


def _uses(body: Node) -> set[Node]:
    """The variables and buffers that something but their definition mentions."""
    used: set[Node] = set()
    seen: set[int] = set()  # nodes that stand in many places are looked into once
    left = [body]
    while left:
        n = left.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if isinstance(n, e.Var | Buffer):
            used.add(n)
        if isinstance(n, _DEFINING):
            said = [getattr(n, name) for name in n.walked_fields if name not in n.binder_fields]
            left += nodes_in(tuple(said))
        else:
            left += children(n)
    return used


_DEFINING = (s.LetStmt, s.Allocate, s.DeclBuffer)


def _keep(n: Node) -> Node | None:
    """Expressions and buffers are not looked into."""
    return n if isinstance(n, e.PrimExpr | Buffer) else None


def _remove(n: Node, used: set[Node], bounds: dict[e.Var, Any]) -> Node | None:
    if isinstance(n, _DEFINING) and used.isdisjoint(getattr(n, x) for x in n.binder_fields):
        acting = [x for x in heads(n) if has_effect(x)]
        return _first(s.Evaluate(acting[0]), n.body) if acting else n.body
    match n:
        case s.For() if _never_runs(n.extent, bounds):
            return NOTHING
        case s.BufferStore() if stores_what_it_read(n):
            return NOTHING
        case s.Evaluate(value) if n is not NOTHING and not has_effect(value):
            return NOTHING
    return taken(n)


def _never_runs(extent: e.PrimExpr, bounds: dict[e.Var, Any]) -> bool:
    known = p.as_int(extent)
    return known <= 0 if known is not None else const_bounds(extent, bounds)[1] <= 0


def stores_what_it_read(n: s.BufferStore) -> bool:
    """True for `A[i] = A[i]`."""
    load = n.value
    if not isinstance(load, BufferLoad) or load.buffer is not n.buffer:
        return False
    indices = zip(load.indices, n.indices, strict=True)
    return not has_effect(load) and all(structural_equal(a, b) for a, b in indices)


class _Rewrites(PyStmtExprMutator):
    """Takes out stores of what was just read, equal where they stand: under tests, after lets."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.lets: dict[e.Var, e.PrimExpr] = {}

    def visit_inside(self, n: Any) -> Any:
        """The statements in one: expressions are not looked into."""
        return map_bodies(n, self.visit_stmt)

    def visit_buffer_store_(self, n: s.BufferStore) -> s.Stmt:
        """None of a value that is there."""
        return NOTHING if self.is_rewrite(n) else n

    def visit_for_(self, n: s.For) -> s.Stmt:
        """A loop, whose variable is in bounds."""
        self.analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
        return self.visit_inside(n)

    def visit_let_stmt_(self, n: s.LetStmt) -> s.Stmt:
        """A variable, of whose value something is known."""
        if not has_effect(n.value) and not reads_memory(n.value):
            self.lets[n.var] = n.value
        return self.visit_inside(n)

    def visit_if_then_else_(self, n: s.IfThenElse) -> s.Stmt:
        """Each side where it is taken."""
        condition = substitute(n.condition, self.lets)
        then, other = self.under(condition, n.then_case), n.else_case
        if other is not None:
            other = self.under(self.analyzer.simplify(p.logical_not(condition)), other)
        return replace(n, then_case=then, else_case=other)

    def under(self, condition: e.PrimExpr, n: s.Stmt) -> Any:
        """A statement where a condition holds."""
        parts = [c for c in conjuncts(condition) if isinstance(c, e.CmpOp) and not reads_memory(c)]
        with self.analyzer.constraint(*parts):
            return self.visit_stmt(n)

    def is_rewrite(self, n: s.BufferStore) -> bool:
        """Whether a store's value is the element that it stores."""
        load = n.value
        if not isinstance(load, BufferLoad) or load.buffer is not n.buffer or has_effect(load):
            return False
        if load.predicate is not None or n.predicate is not None:
            return False
        pairs = zip(load.indices, n.indices, strict=True)
        both = [(substitute(a, self.lets), substitute(b, self.lets)) for a, b in pairs]
        if any(reads_memory(x) for pair in both for x in pair):
            return False
        return all(self.analyzer.can_prove_equal(a, b) for a, b in both)


class RemoveNoOp(PrimFuncPass):
    """Remove statements that have no effect, and what only they need.

    With `PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}})` also stores that
    others hide.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `remove_no_op`, and `remove_overwritten`; facts of the place count too."""
        if ctx.get_config("tir.RemoveNoOp")["use_dataflow_analysis"]:
            func = remove_overwritten(func)
        return remove_no_op(func.with_body(_Rewrites().visit_stmt(func.body)))
