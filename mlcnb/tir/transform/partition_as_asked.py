"""Cutting loops as it is asked for: at tests that are marked, whatever the extent.

for i in range(n):                         for i in range(m // 4):
    for j in range(4):                         for j in range(4):
        if T.likely(i * 4 + j < m):    ->          A[i * 4 + j] = 0
            A[i * 4 + j] = 0               for i in range(n - m // 4):
                                               for j in range(4):
                                                   if (i + m // 4) * 4 + j < m: …

`T.likely` marks a test; the annotation `pragma_loop_partition_hint` marks a loop, and with it every
test below. A marked test is solved for the variable of a loop around it: where it holds for all
that inner loops do, or else where it fails, is the middle part, in which it is decided. What is
before and behind is cut again. As TVM's `LoopPartition`; parts start at 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mlcnb.arith import Analyzer
from mlcnb.arith.deduce import deduce_bound
from mlcnb.arith.int_set import IntSet
from mlcnb.core.node import children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.edges import conjuncts, opposite
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import map_bodies, substitute, unmarked
from mlcnb.tir.stmt import For, ForKind, IfThenElse, LetStmt, Stmt, seq

#: the annotation of a loop that is to be cut at any test, at both ends
HINT = "pragma_loop_partition_hint"


class Wanted(NamedTuple):
    """Options of the pass.

    constant: loops of constant extent are cut too; keep_single: a part of one iteration stays a
    loop; unroll_uncut: a loop with the hint that has no cut is unrolled.
    """

    constant: bool = False
    keep_single: bool = False
    unroll_uncut: bool = False


#: nothing is asked for
PLAIN = Wanted()


def is_marked(n: Stmt) -> bool:
    """Whether a test is marked anywhere below."""
    return any(isinstance(x, e.Call) and x.op == "tir.likely" for x in walk(n))


def partition_as_asked(body: Stmt, wanted: Wanted) -> Stmt:
    """A body with its loops cut at marked tests; the marks are gone then."""
    done = _Cutter(wanted).stmt(body)
    return rewrite(done, _unmarked)


def _unmarked(n: Any) -> Any:
    if isinstance(n, e.Call) and n.op == "tir.likely":
        return n.args[0]
    if isinstance(n, For) and HINT in n.annotations:
        return unmarked(n, HINT)
    return None


class _Test(NamedTuple):
    """A test below a loop, the values of the loop's variable for which it holds, or fails."""

    condition: e.PrimExpr
    values: IntSet


class _Cutter:
    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.analyzer = Analyzer()
        self.outer: dict[e.Var, e.Range] = {}

    def stmt(self, n: Any) -> Any:
        """A statement with the loops in it cut, from the outside in."""
        if isinstance(n, For):
            return self.loop(n)
        return map_bodies(n, self.stmt)

    def loop(self, n: For) -> Stmt:
        """The parts of a loop; in each of them what is inside is cut."""
        if self.is_candidate(n):
            parts = self.parts(n)
            if parts is not None:
                return parts
            if HINT in n.annotations and self.wanted.unroll_uncut and p.as_int(n.extent):
                n = replace(n, kind=ForKind.UNROLLED)
        return self.whole(n)

    def whole(self, n: For) -> For:
        """A loop that is not cut."""
        domain = e.Range(n.min, n.extent)
        self.outer[n.loop_var] = domain
        self.analyzer.bind(n.loop_var, domain)
        body = self.stmt(n.body)
        del self.outer[n.loop_var]
        return replace(n, body=body)

    def is_candidate(self, n: For) -> bool:
        """A loop in order that is marked, or holds a marked test of its variable."""
        if n.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or is_left_early(n.body):
            return False
        if HINT in n.annotations:
            return True
        if not self.wanted.constant and p.as_int(n.min) is not None is not p.as_int(n.extent):
            return False
        return any(_uses(c, {n.loop_var}) for c, _ in _tests(n.body, False, ()))

    def parts(self, n: For) -> Stmt | None:
        """Before, middle and behind; None where there is no middle."""
        hinted = HINT in n.annotations
        last = self.analyzer.simplify(n.min + n.extent - 1)
        for held in (True, False):
            found = self.middle(n, last, held, hinted)
            if found is not None:
                return self.cut(n, last, found, held)
        return None

    def middle(self, n: For, last: e.PrimExpr, held: bool, hinted: bool) -> Any:
        """Conditions that all hold (or fail) in one interval, and its ends; None without any."""
        tests = []
        for condition, loops in _tests(n.body, hinted, ()):
            values = self.solved(n, condition, loops, held)
            if values is not None and not self.is_empty(values, n.min, last):
                tests.append(_Test(condition, values))
        for chosen in (tests, *([t] for t in tests if hinted)):
            ends = self.ends(chosen, n.min, last)
            if chosen and ends is not None:
                return [t.condition for t in chosen], *ends
        return None

    def solved(
        self, n: For, condition: e.PrimExpr, loops: tuple[For, ...], held: bool
    ) -> IntSet | None:
        """Values for which a test holds, or fails, whatever the loops between do."""
        inner = {x.loop_var: e.Range(x.min, x.extent) for x in loops}
        fixed = {n.loop_var, *inner}
        if not _uses(condition, {n.loop_var}) or any(_uses(r, fixed) for r in inner.values()):
            return None
        if any(isinstance(x, BufferLoad | e.Call | e.Let) for x in walk(condition)):
            return None
        if _bound_inside(n) & {x for x in walk(condition) if isinstance(x, e.Var)} - fixed:
            return None
        asked = condition if held else opposite(condition)
        if asked is None:
            return None
        found = deduce_bound(n.loop_var, asked, self.outer, inner)
        return None if found.is_nothing() else found

    def is_empty(self, values: IntSet, first: e.PrimExpr, last: e.PrimExpr) -> bool:
        """True if an interval is known to lie outside of a loop."""
        beyond = values.low is not None and self.analyzer.can_prove(values.low > last)
        return beyond or (values.high is not None and self.analyzer.can_prove(values.high < first))

    def ends(self, tests: list[_Test], first: e.PrimExpr, last: e.PrimExpr) -> Any:
        """First and last value of all intervals together in the loop; None if there are none."""
        low, high = first, last
        for test in tests:
            if test.values.low is not None and not self.analyzer.can_prove(test.values.low <= low):
                low = p.maximum(low, p.cast(low.dtype, test.values.low))
            if test.values.high is not None:
                if not self.analyzer.can_prove(test.values.high >= high):
                    high = p.minimum(high, p.cast(high.dtype, test.values.high))
        low, high = self.analyzer.simplify(low), self.analyzer.simplify(high)
        return None if self.analyzer.can_prove(low > high) else (low, high)

    def cut(self, n: For, last: e.PrimExpr, found: Any, held: bool) -> Stmt:
        """The three parts, those that may be empty clamped to the loop."""
        conditions, low, high = found
        end = self.analyzer.simplify(last + 1)
        low = self.clamped(low, n.min, end)
        behind = self.clamped(self.analyzer.simplify(high + 1), low, end)
        decided = {id(c): p.const(held) for c in conditions}
        starts = self.analyzer.can_prove_equal(low, n.min)
        stops = self.analyzer.can_prove_equal(behind, end)
        middle = replace(n, body=_decided(n.body, decided))
        if not (starts and stops):
            middle = _unmarked(middle) or middle
        before = [] if starts else [self.part(n, n.min, low)]
        after = [] if stops else [self.part(n, behind, end)]
        return seq(*before, self.part(middle, low, behind), *after)

    def clamped(self, x: e.PrimExpr, first: e.PrimExpr, end: e.PrimExpr) -> e.PrimExpr:
        """`x`, or the end that it may lie beyond."""
        if not self.analyzer.can_prove(x <= end):
            x = p.minimum(x, end)
        if not self.analyzer.can_prove(x >= first):
            x = p.maximum(x, first)
        return self.analyzer.simplify(x)

    def part(self, n: For, start: e.PrimExpr, end: e.PrimExpr) -> Stmt:
        """The iterations from `start` up to `end`, counted from 0; cut again."""
        kind = n.loop_var.dtype
        start = p.cast(kind, start)
        extent = p.cast(n.extent.dtype, self.analyzer.simplify(p.subtract(end, start)))
        if p.as_int(extent) == 1 and not self.wanted.keep_single:
            return self.stmt(substitute(n.body, {n.loop_var: start}))
        var = e.Var(n.loop_var.name, kind)
        body = substitute(n.body, {n.loop_var: p.add(var, start)})
        made = replace(n, loop_var=var, min=p.const(0, n.min.dtype), extent=extent, body=body)
        return self.loop(made) if p.as_int(extent) is not None else self.whole(made)


def _tests(
    n: Any, every: bool, loops: tuple[For, ...]
) -> Iterator[tuple[e.PrimExpr, tuple[For, ...]]]:
    """The parts of marked tests below a loop, or of `every` test, with the loops between."""
    if isinstance(n, For):
        loops = (*loops, n)
    if isinstance(n, e.Call) and n.op == "tir.likely":
        yield from ((c, loops) for c in conjuncts(n.args[0]))
    condition = None
    if every and isinstance(n, IfThenElse | e.Select):
        condition = n.condition
    if every and isinstance(n, e.Call) and n.op == "tir.if_then_else":
        condition = n.args[0]
    if condition is not None:
        yield from ((c, loops) for c in conjuncts(condition))
    for child in children(n):
        yield from _tests(child, every, loops)


def _uses(n: Any, variables: set[e.Var]) -> bool:
    return any(x in variables for x in walk(n) if isinstance(x, e.Var))


def _bound_inside(n: For) -> set[e.Var]:
    """Variables that statements below a loop bind, besides those of loops."""
    return {x.var for x in walk(n.body) if isinstance(x, LetStmt)}


def _decided(body: Stmt, known: Mapping[int, e.PrimExpr]) -> Stmt:
    """The body with conditions that are known put in."""
    return rewrite(body, lambda n: known.get(id(n)))
