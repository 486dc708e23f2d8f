"""LoopPartition: a test that holds for most of a loop is moved out of it.

for i in range(8):                              for i in range(7):
    for j in T.unroll(4):                           for j in T.unroll(4):
        if i * 4 + j < 30:               ->             A[i * 4 + j] = 0
            A[i * 4 + j] = 0                    for j in T.unroll(4):
                                                    if 28 + j < 30:
                                                        A[28 + j] = 0

A serial loop of constant extent is cut: the long part is free of the test, and what fails at the
beginning (the left edge of an image, `1 <= i * 4 + j`) is cut off likewise, where the test depends
on nothing but the loop and on loops that are written out. `Simplify` then removes what is decided.

for p in T.parallel(2):                         for p in T.parallel(2):
    for i in range(8):                              for i in range(8):
        for k in range(64):                             if p * 8 + i < 15:
            for j in T.unroll(8):                           for k in range(64):
                if p * 64 + i * 8 + j < 127: ->                 for j in T.unroll(8): …
                    …                                   else:
                                                            for k in range(64):
                                                                for j in T.unroll(8):
                                                                    if j < 7: …

A parallel loop stays whole, for its parts would run one after the other: a test on its variable is
decided by a branch, once, outside of the loops that sum and of those that are written out.

for i in T.serial(56, annotations={"pragma_loop_partition_hint": True}):
    A[i] = T.if_then_else(1 <= i * 2 and i * 2 < 100, B[i * 2 - 1], 0)

A loop with that hint (TVM's name) is cut for the tests inside of values too, and at both ends: what
pads is left to the short parts, and the long one in the middle has no test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

from mlcnb.arith.sum import Sum
from mlcnb.core.node import Node, children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.edges import Bounds, Edge, conjuncts, edge_of, extent_of, range_of
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, rewrite_statements, substitute, taken, unmarked
from mlcnb.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt, seq
from mlcnb.tir.transform.partition_as_asked import (
    HINT,
    PLAIN,
    Wanted,
    is_marked,
    partition_as_asked,
)
from mlcnb.tir.transform.unroll_loop import indexes_local

#: loops that leave copies of their body behind
WRITTEN_OUT = (ForKind.UNROLLED, ForKind.VECTORIZED)
#: nodes of a loop's body above which it is not copied where loops in it can end sooner instead
LARGE = 1000
#: axes by which the body of one loop is branched: each of them may triple it
MOST_AXES = 2


def partition_loops(func: PrimFunc, asked: Wanted = PLAIN) -> PrimFunc:
    """`func` with loops cut where a condition on their variable changes from certain to not."""
    return func.with_body(_partition(func.body, {}, asked))


def _partition(n: Stmt, outer: Bounds, asked: Wanted) -> Stmt:
    """From the outside in: below the end of an outer loop, more is known of the inner ones."""
    if not isinstance(n, For):
        made = map_bodies(n, lambda s: _partition(s, outer, asked))
        return taken(made) or made
    ends = range_of(n) if n.kind in (ForKind.SERIAL, ForKind.PARALLEL) else None
    if ends is None or ends[0] == ends[1] or is_left_early(n.body):
        return map_bodies(n, lambda s: _partition(s, outer, asked))
    if n.kind is ForKind.PARALLEL:
        return _inside(n, outer, asked)
    made = seq(*(_inside(part, outer, asked) for part in _cut(n, *ends, asked)))
    return taken(made) or made


def _inside(n: For, outer: Bounds, asked: Wanted) -> Stmt:
    """A loop that is not cut (again): what is in it is."""
    if p.as_int(n.extent) == 1 and not asked.keep_single:
        body = substitute(n.body, {n.loop_var: p.cast(n.loop_var.dtype, n.min)})
        return _partition(rewrite_statements(body, taken), outer, asked)
    outer = {**outer, n.loop_var: range_of(n)}
    made = replace(n, body=_branched(n.body, _by_axis(n), outer, asked))
    return taken(made) or made


class _Test(NamedTuple):
    """A test below a loop, and the loops between the two that stay loops."""

    edge: Edge
    condition: e.PrimExpr
    loops: tuple[For, ...]
    is_inside_a_loop: bool

    def uses(self, loop: For) -> bool:
        """Whether the test depends on one of the loops between."""
        return any(x is loop.loop_var for x in walk(self.condition))


def _tests(n: Any, values: bool, inner: Bounds, loops: tuple[For, ...] = ()) -> Iterator[_Test]:
    """The tests below a loop that fail at some end; those inside of `values` too."""
    if isinstance(n, For):
        inner = {**inner, n.loop_var: range_of(n)}
        loops = loops if n.kind in WRITTEN_OUT else (*loops, n)
    condition = n.condition if isinstance(n, IfThenElse) else None
    if values and isinstance(n, e.Call) and n.op == "tir.if_then_else":
        condition = n.args[0]
    for part in conjuncts(condition) if condition is not None else ():
        edge = edge_of(part, inner)
        if edge is not None:
            yield _Test(edge, part, loops, bool(inner))
    for child in children(n):
        if values or isinstance(child, Stmt):
            yield from _tests(child, values, inner, loops)


def _pieces(edges: list[Edge], low: int, high: int) -> list[tuple[int, int]]:
    """`low` to `high` in up to five pieces, the middle one as long as it can be.

    In the middle the tests hold; beside it they may; at the ends none of them does.
    """
    ends = [x for x in edges if x.factor > 0 and low < x.certain <= high]
    last = min((x.certain for x in ends), default=high + 1)
    starts = [x for x in edges if x.factor < 0 and low < x.certain < last]
    first = max((x.certain for x in starts), default=low)
    before = min((x.possible for x in starts), default=low)
    after = max((x.possible for x in ends), default=high + 1)
    cuts = {low, max(low, before), first, last, min(after, high + 1), high + 1}
    return [(a, b - 1) for a, b in pairwise(sorted(cuts))]


# a serial loop becomes several, one after the other


def _cut(n: For, low: int, high: int, asked: Wanted) -> list[For]:
    """The parts of a serial loop: in the longest one, tests on its variable alone are decided."""
    hinted = HINT in n.annotations
    if hinted:
        n = unmarked(n, HINT)
    axis = Sum(0, {n.loop_var: 1})
    tests = [t for t in _tests(n.body, hinted, {}) if t.edge.is_along(axis)]
    edges = [t.edge for t in tests if hinted or _is_lost_here(t)]
    pieces = _pieces(edges, low, high)
    if len(pieces) > 1:
        whole = None if hinted else _ended(n, axis)
        return [_part(n, axis, *piece) for piece in pieces] if whole is None else [whole]
    return [replace(n, kind=ForKind.UNROLLED) if hinted and asked.unroll_uncut else n]


def _ended(n: For, axis: Sum) -> For | None:
    """The loop whole, with loops in it that end where a test fails; None where its body is short
    enough to be copied, or where that does not do for all tests.
    """
    if sum(1 for _ in walk(n.body)) <= LARGE:
        return None
    body = rewrite_statements(n.body, lambda x: _ending(x, axis))
    if any(test.edge.is_along(axis) for test in _tests(body, False, {})):
        return None
    return replace(n, body=body)


def _ending(n: Node, outer: Sum) -> Node | None:
    """A loop of nothing but what a test of it and of the outer loop lets run: up to there."""
    if not isinstance(n, For) or n.kind is not ForKind.SERIAL or extent_of(n) is None:
        return None
    if indexes_local(n):
        return None  # registers have no addresses: it is written out, and must be of known length
    below: Stmt = n.body
    while isinstance(below, For) and below.kind in WRITTEN_OUT:
        below = below.body
    if not isinstance(below, IfThenElse) or below.else_case is not None:
        return None
    own = Sum(0, {n.loop_var: 1})
    for part in conjuncts(below.condition):
        edge = edge_of(part, {n.loop_var: range_of(n)})
        if edge is not None and edge.is_along(outer) and Sum(0, edge.rest.terms).is_same(own):
            left = Sum(1 - edge.rest.const).plus(edge.axis, -edge.factor).expr(n.extent.dtype)
            body = rewrite_statements(n.body, partial(_without, part))
            return replace(n, extent=p.minimum(n.extent, left), body=body)
    return None


def _without(part: e.PrimExpr, n: Node) -> Node | None:
    """A statement whose condition does not ask for one of its parts."""
    if not isinstance(n, IfThenElse):
        return taken(n)
    left = p.all_of(*(x for x in conjuncts(n.condition) if x is not part))
    made = replace(n, condition=left)
    return taken(made) or made


def _is_lost_here(test: _Test) -> bool:
    """A test that fails at the beginning is the innermost loop's to lose."""
    return test.edge.factor > 0 or not any(test.uses(loop) for loop in test.loops)


def _part(n: For, axis: Sum, first: int, last: int) -> For:
    """The iterations from `first` to `last`, with a variable of their own."""
    body = _Decided(axis, first, last).of(n.body)
    if first == p.as_int(n.min):
        return replace(n, extent=p.const(last - first + 1, n.extent.dtype), body=body)
    fresh = e.Var(n.loop_var.name, n.loop_var.dtype)
    return replace(
        n,
        loop_var=fresh,
        min=p.const(first, n.min.dtype),
        extent=p.const(last - first + 1, n.extent.dtype),
        body=substitute(body, {n.loop_var: fresh}),
    )


# the body of a loop is written several times, and a branch chooses


def _by_axis(n: For) -> list[list[Edge]]:
    """Tests in a loop's body that no cut decides, sorted by what they ask of the loops around.

    Those are worth it that a loop asks again and again as it sums, and a parallel loop's own.
    """
    own = Sum(0, {n.loop_var: 1})
    spatial = cache(_is_spatial)
    found: list[list[_Test]] = []
    for test in _tests(n.body, False, {}):
        edge = test.edge
        if n.kind is ForKind.SERIAL and edge.is_along(own) or not edge.mentions(n.loop_var):
            continue
        if any(test.uses(loop) and spatial(loop) for loop in test.loops):
            continue  # it is decided in that loop
        same = next((tests for tests in found if edge.is_along(tests[0].edge.axis)), None)
        if same is None:
            found.append([test])
        else:
            same.append(test)

    def pays(test: _Test) -> bool:
        if any(not test.uses(loop) and not spatial(loop) for loop in test.loops):
            return True
        return test.is_inside_a_loop and test.edge.is_along(own)

    return [[t.edge for t in tests] for tests in found if any(map(pays, tests))][:MOST_AXES]


def _is_spatial(loop: For) -> bool:
    """True if the loop's variable says where something is stored: it does more than sum."""
    stores = (n for n in walk(loop.body) if isinstance(n, BufferStore))
    return any(x is loop.loop_var for s in stores for index in s.indices for x in walk(index))


def _branched(body: Stmt, tests: list[list[Edge]], outer: Bounds, asked: Wanted) -> Stmt:
    """The body for each piece of the first axis, and in each piece for those of the next one."""
    if not tests:
        return _partition(body, outer, asked)
    edges, *others = tests
    ends = edges[0].range(outer)
    pieces = [] if ends is None else _pieces(edges, *ends)
    if len(pieces) < 2:
        return _branched(body, others, outer, asked)
    made: Stmt | None = None
    for first, last in reversed(pieces):
        decided = _Decided(edges[0].axis, first, last, rewrites=True).of(body)
        here = _branched(decided, others, outer, asked)
        made = here if made is None else IfThenElse(edges[0].position <= last, here, made)
    assert made is not None
    return made


@dataclass(frozen=True)
class _Decided:
    """Takes out the tests that are certain, one way or the other, for first <= axis <= last.

    Where the axis has one value, and `rewrites` is set, what is left asks for inner loops alone.
    """

    axis: Sum
    first: int
    last: int
    rewrites: bool = False

    def of(self, n: Stmt) -> Stmt:
        """The statement without them, and without what they never let run."""
        return rewrite_statements(self.stmt(n, {}), taken)

    def stmt(self, n: Any, inner: Bounds) -> Any:
        """The statement with shorter conditions."""
        if isinstance(n, For):
            inner = {**inner, n.loop_var: range_of(n)}
        if isinstance(n, IfThenElse):
            parts = list(conjuncts(n.condition))
            left = [self.test(part, inner) for part in parts]
            if any(a is not b for a, b in zip(left, parts, strict=True)):
                n = replace(n, condition=p.all_of(*left))
        return map_bodies(n, lambda s: self.stmt(s, inner))

    def test(self, condition: e.PrimExpr, inner: Bounds) -> e.PrimExpr:
        """True, false, or what is left of one of the parts of a condition."""
        edge = edge_of(condition, inner)
        if edge is None or not edge.is_along(self.axis):
            return condition
        if edge.holds(self.first, self.last):
            return p.const(True)
        if edge.fails(self.first, self.last):
            return p.const(False)
        return edge.at(self.first) if self.rewrites and self.first == self.last else condition


class LoopPartition(PrimFuncPass):
    """Cut loops where a condition on their variable changes, so that the long part has no test.

    With `partition_const_loop` in the config `tir.LoopPartition`, and where tests are marked by
    `T.likely`, just what is asked for: see `mlcnb.tir.transform.partition_as_asked`.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `partition_loops` and `partition_as_asked`."""
        given = ctx.get_config("tir.LoopPartition")
        wanted = Wanted(
            given["partition_const_loop"],
            given["no_unroll_loop_with_extent_one"],
            given["unroll_loop_with_partition_hint_no_interval"],
        )
        if not wanted.constant and not is_marked(func.body):
            return partition_loops(func, wanted)
        return func.with_body(partition_as_asked(func.body, wanted))
