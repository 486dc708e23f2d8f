"""ReduceBranchingThroughOvercompute: a test around what may as well be done always is gone.

for i in range(16):                             for i in range(16):
    if i > 0:                            ->         A[0] = A[0] + i * i
        A[0] = A[0] + i * i

Where the test does not hold, the statement has to change nothing, or to do what the other side
does; it has to stay within its memory there, and to divide by nothing that may be zero. With
`PassContext(config={"tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": True}})`
what buffers hold is known too.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.pass_config import config_value
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.access.inside import check_bounds
from mlcnb.tir.analysis.effects import has_effect
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt, Stmt, While
from mlcnb.tir.transform.simplify_contents import ContentsSimplifier

_SIMPLE = (SeqStmt, For, IfThenElse, BufferStore, Evaluate)


def reduce_branching(func: PrimFunc, follow_contents: bool = False) -> PrimFunc:
    """`func` with tests gone that only spare work; with what buffers hold, if that is followed."""
    finder = _Finder(follow_contents)
    finder.visit_stmt(func.body)
    for place, taken in finder.found.items():
        func = _without(func, place, taken)
    return func


def _without(func: PrimFunc, test: IfThenElse, taken: Stmt) -> PrimFunc:
    """The function without a test, if it leaves its memory nowhere then."""
    changed = func.with_body(rewrite(func.body, lambda n: taken if n is test else None))
    return func if len(check_bounds(changed)) > len(check_bounds(func)) else changed


class _Finder(ContentsSimplifier):
    """Looks at each test with what is known there."""

    def __init__(self, follow_contents: bool) -> None:
        options = config_value({}, "tir.Simplify")
        name = "propagate_knowns_to_simplify_expressions"
        super().__init__({**options, name: follow_contents})
        self.follows = follow_contents
        self.found: dict[IfThenElse, Stmt] = {}
        self.trying = False

    def visit_if_then_else_(self, n: IfThenElse) -> Stmt | None:
        """Notes a test whose one side does for both; simplifies as the base does."""
        if not self.follows:
            self.facts = []
        if not self.trying and not has_effect(n.condition):
            self.trying = True
            if self.does_for_both(n, n.then_case, n.else_case, p.logical_not(n.condition)):
                self.found[n] = n.then_case
            elif n.else_case is not None:
                if self.does_for_both(n, n.else_case, n.then_case, n.condition):
                    self.found[n] = n.else_case
            self.trying = False
        return super().visit_if_then_else_(n)

    def does_for_both(
        self, n: IfThenElse, one: Stmt, other: Stmt | None, where: e.PrimExpr
    ) -> bool:
        """Whether one side does what the other does where that one is taken."""
        if not _may_run_anywhere(one):
            return False
        return structural_equal(self.under(where, one), self.under(where, other))

    def under(self, condition: e.PrimExpr, n: Stmt | None) -> Stmt | None:
        """What a statement comes to where a condition holds."""
        before = self.facts
        self.facts = [*before, *(self.said(condition) if self.follows else ())]
        with self.given(self.visit_expr(condition)):
            done = None if n is None else self.visit_stmt(n)
        self.facts = before
        return done


def _may_run_anywhere(n: Stmt) -> bool:
    """Whether nothing can go wrong that a test kept away, but for indices out of bounds."""
    for x in walk(n):
        if isinstance(x, While) or (isinstance(x, Stmt) and not isinstance(x, _SIMPLE)):
            return False
        if isinstance(x, For) and x.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return False
        if isinstance(x, DIVIDING):
            if not x.dtype.is_float and p.as_int(x.b) in (None, 0, -1):
                return False
        if isinstance(x, e.Call) and has_effect(x):
            return False
    return True


class ReduceBranchingThroughOvercompute(PrimFuncPass):
    """Remove tests around what may as well be done always."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `reduce_branching`."""
        options = ctx.get_config("tir.ReduceBranchingThroughOvercompute")
        return reduce_branching(func, options["use_dataflow_analysis"])
