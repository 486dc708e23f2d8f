"""OverlapTiles: the last tile of a row of open length begins early enough to be a whole one.

for i in range((n + 3) // 4):               if n >= 4:
    for j in T.unroll(4):                       for i in range((n + 3) // 4):
        if i * 4 + j < n:                           start: T.int32 = T.min(i * 4, n - 4)
            B[i * 4 + j] = A[i * 4 + j]  ->         for j in T.unroll(4):
                                                        B[start + j] = A[start + j]
                                            else:
                                                for i in range((n + 3) // 4): …    as it was

Some results are made twice, the same each time, and no tile has a test; what is shorter than a tile
keeps its tests. That is asked for by an annotation of the loop over tiles, `pragma_overlap_tiles`,
and done only where it is sure to change nothing: each place of a tile does by itself
what its element of the row asks for, and nothing that is stored is read. A loop that sums comes in
two parts, in the order that it had:

for i in range((n + 3) // 4):               for i in range(n // 4):
    for j in T.unroll(4):                       for j in T.unroll(4):
        S[j] += T.if_then_else(                     S[j] += A[i * 4 + j]
            i * 4 + j < n, A[i * 4 + j], 0)  -> if n // 4 < (n + 3) // 4 and n // 4 >= 0:
                                                for j in T.unroll(4): …    as it was

Where the annotation is a number, not True, there is a form with tiles of so many places, too: for
rows of which these compute less by an eighth (9 places in tiles of 7, or of 5), since they load
more for each place, and for those that are shorter than a tile; for the latter alone where a tile
is one vector. Of several numbers those behind the first are for rows that are shorter than the
tiles before.

Where the length is known `LoopPartition` gives the rest a tile of its own size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.reading import of
from mlcnb.arith.sum import Sum, is_index
from mlcnb.core.node import children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.edges import RowTile, Steps, conjuncts, extent_of, tile_of
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import PyStmtExprMutator, map_bodies, substitute, unmarked
from mlcnb.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from mlcnb.tir.transform.simplify import Simplifier

#: the annotation of a loop over tiles that may overlap
PRAGMA = "pragma_overlap_tiles"
#: statements of which it is known what they do
KINDS = frozenset((Allocate, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, SeqStmt))


def overlap_tiles(func: PrimFunc) -> PrimFunc:
    """`func` with whole tiles alone along rows of open length, where its loops ask for it."""
    if not func.attrs.get("tir.noalias"):
        return func
    return func.with_body(_overlapped(func.body))


def _overlapped(n: Any) -> Any:
    """A statement whose loops over tiles have whole ones, from the outside in."""
    made = _loop(n) if isinstance(n, For) else None
    return map_bodies(n, _overlapped) if made is None else made


def _loop(n: For) -> Stmt | None:
    """A loop over tiles, with whole ones and as it was; None where it is no such loop."""
    if PRAGMA not in n.annotations:
        return None
    told, n = n.annotations[PRAGMA], unmarked(n, PRAGMA)
    narrower = [int(x) for x in (told if isinstance(told, tuple | list) else [told])]
    return _with_whole_tiles(n, narrower) or replace(n, body=_overlapped(n.body))


def _with_whole_tiles(n: For, narrower: list[int]) -> Stmt | None:
    """The loop in its forms, where that is sure to change nothing."""
    if n.kind not in (ForKind.SERIAL, ForKind.PARALLEL) or p.as_int(n.min) != 0:
        return None
    tile = next(_tiles(n), None)
    if tile is None:
        return None
    try:
        whole = _moved(n, tile, tile.width)
    except _CannotMoveError:
        return _whole_ones_first(n, tile)
    tested: Stmt = replace(n, body=_overlapped(n.body))
    kind = n.loop_var.dtype
    length, width = tile.length.expr(kind), p.const(tile.width, kind)
    first, *shorter = narrower
    if not 1 < first < tile.width:
        return IfThenElse(length >= width, whole, tested)
    try:
        narrow, less = _moved(n, tile, first), p.const(first, kind)
        for size in reversed(shorter):
            tested = IfThenElse(length >= p.const(size, kind), _moved(n, tile, size), tested)
    except _CannotMoveError:
        return IfThenElse(length >= width, whole, tested)
    is_wide = p.greater_equal(length, width)
    if not _is_vector(n, tile):
        wide, places = (p.floordiv(length + (x - 1), x) * x for x in (width, less))
        is_wide = p.all_of(is_wide, p.less_equal(7 * wide, 8 * places))
    return IfThenElse(is_wide, whole, IfThenElse(length >= less, narrow, tested))


def _is_vector(n: For, tile: RowTile) -> bool:
    """True if a tile is one vector: a narrower one takes as long."""
    inside = (x for x in walk(n.body) if isinstance(x, For) and x.kind is ForKind.VECTORIZED)
    return any(p.as_int(x.extent) == tile.width for x in inside)


def _moved(n: For, tile: RowTile, size: int) -> For:
    """The loop over tiles of `size` places, the last of which begins early.

    Raises _CannotMoveError where that might change something.
    """
    kind = n.loop_var.dtype
    start, width, length = e.Var("start", kind), p.const(size, kind), tile.length.expr(kind)
    body = _decided(_Mover(n, tile, start, size).body(), start, length - width)
    first = p.minimum(n.loop_var * width, length - width)
    extent = n.extent if size == tile.width else p.floordiv(length + (width - 1), width)
    return replace(n, extent=extent, body=LetStmt(start, first, _overlapped(body)))


def _decided(body: Stmt, start: e.Var, last: e.PrimExpr) -> Stmt:
    """The body of a whole tile, which begins at 0 to `last`: its choices by place are decided."""
    if not any(isinstance(n, e.Call) and n.op == "tir.if_then_else" for n in walk(body)):
        return body
    simplifier = Simplifier()
    simplifier.analyzer.bind(start, e.Range(p.const(0, start.dtype), last + 1))
    return simplifier.visit_stmt(body) or body


def _whole_ones_first(n: For, tile: RowTile) -> Stmt | None:
    """Whole tiles without the test of the row's end, then what is left with it."""
    if n.kind is not ForKind.SERIAL:
        return None
    kind = n.extent.dtype
    count = p.floordiv(tile.length.expr(kind), p.const(tile.width, kind))
    free = _Whole(n, tile).visit_stmt(n.body)
    rest = substitute(n.body, {n.loop_var: p.cast(n.loop_var.dtype, count)})
    whole = replace(n, extent=count, body=_overlapped(free))
    # a length below 0 has neither: its quotients are below 0, too
    is_left = p.all_of(p.less(count, n.extent), p.greater_equal(count, p.const(0, kind)))
    return seq(whole, IfThenElse(is_left, _overlapped(rest)))


class _Whole(PyStmtExprMutator):
    """The body of a loop over tiles where a tile is whole: the test of the row's end holds."""

    def __init__(self, loop: For, tile: RowTile) -> None:
        self.loop, self.tile = loop, tile
        self.extents: dict[e.Var, int | None] = {}

    def visit_for_(self, op: For) -> Any:
        """A loop of its own extent."""
        self.extents[op.loop_var] = extent_of(op)
        return self.visit_inside(op)

    def visit_if_then_else_(self, op: IfThenElse) -> Any:
        """A statement under the test."""
        made = self.visit_inside(op)
        condition = self.left(op.condition)
        return made.then_case if p.is_const(condition, 1) else replace(made, condition=condition)

    def visit_call_(self, op: e.Call) -> Any:
        """A value under the test."""
        made = self.visit_inside(op)
        if op.op != "tir.if_then_else":
            return made
        condition = self.left(op.args[0])
        return (
            made.args[1]
            if p.is_const(condition, 1)
            else replace(made, args=(condition, *made.args[1:]))
        )

    def left(self, condition: e.PrimExpr) -> e.PrimExpr:
        """What is left of a condition."""
        found = ((x, tile_of(x, self.loop.loop_var, self.extents)) for x in conjuncts(condition))
        kept = [x for x, tile in found if tile is None or not tile[0].is_same(self.tile)]
        return p.all_of(*kept)


def _tiles(n: For) -> Iterator[RowTile]:
    """What the tests below a loop say of its tiles, which cover the row."""
    for test, loops in _tests(n.body, {}):
        found = tile_of(test, n.loop_var, loops)
        if found is not None:
            width, length = found[0]
            covered = p.floordiv(length.shifted(width - 1).expr(n.extent.dtype), width)
            if Analyzer().can_prove_equal(covered, n.extent):
                yield found[0]


def _tests(n: Any, loops: dict[e.Var, int | None]) -> Iterator[tuple[e.PrimExpr, Any]]:
    """The parts of the tests below a loop, with the extents of the loops between."""
    if isinstance(n, For):
        loops = {**loops, n.loop_var: extent_of(n)}
    if isinstance(n, IfThenElse):
        yield from ((part, loops) for part in conjuncts(n.condition))
    if isinstance(n, BufferStore):
        choices = (x for x in walk(n.value) if isinstance(x, e.Call))
        tests = (x.args[0] for x in choices if x.op == "tir.if_then_else")
        yield from ((part, loops) for test in tests for part in conjuncts(test))
    for child in children(n):
        if isinstance(child, Stmt):
            yield from _tests(child, loops)


class _CannotMoveError(Exception):
    """A body whose tiles may not begin elsewhere."""


class _Mover(PyStmtExprMutator):
    """The body of a loop over tiles with `start` in place of `loop_var * width`, without tests,
    for the first `size` places of a tile.

    Raises _CannotMoveError where a place of the tile might not do the same from another start, or
    where it is no one loop that goes through the places of a smaller tile.
    """

    def __init__(self, loop: For, tile: RowTile, start: e.Var, size: int) -> None:
        self.loop, self.tile, self.start, self.size = loop, tile, start, size
        self.extents: dict[e.Var, int | None] = {}
        #: loops through a tile that go through a smaller one
        self.shorter: set[e.Var] = set()
        #: below a test: the places of the row that the loops of the tile go through
        self.steps: Steps | None = None
        #: memory of the tile alone -> how its elements follow the places, in each access
        self.own: dict[e.Var, set[Any]] = {}
        #: of those, what is stored to below a test
        self.made: set[e.Var] = set()
        #: other memory
        self.stored: set[e.Var] = set()
        self.read: set[e.Var] = set()

    def body(self) -> Stmt:
        """The body, if nothing that it stores is read and its own memory follows the tile."""
        if self.size < self.tile.width:
            found = [steps for _, steps in self.all_tiles()]
            self.require(all([*steps.values()] == [1] for steps in found))
            self.shorter = {v for steps in found for v in steps}
        made: Stmt = self.visit_stmt(self.loop.body)
        every = {c for _, steps in self.all_tiles() for c in steps.values()}
        for data, forms in self.own.items():
            self.require(len(forms) <= 1)
            follows = {c for form in forms for index in form for c, _ in index}
            self.require(data not in self.made or follows == every)
        self.require(not self.stored & self.read)
        return made

    def all_tiles(self) -> Iterator[tuple[RowTile, Steps]]:
        """What every test says."""
        for test, loops in _tests(self.loop.body, {}):
            found = tile_of(test, self.loop.loop_var, loops)
            if found is not None:
                yield found

    def require(self, holds: bool) -> None:
        """Give up where it does not hold."""
        if not holds:
            raise _CannotMoveError

    def visit_stmt(self, stmt: Any) -> Any:
        """Statements of which it is known what they do."""
        self.require(type(stmt) in KINDS)
        return super().visit_stmt(stmt)

    def visit_for_(self, op: For) -> Any:
        """A loop of its own extent."""
        self.extents[op.loop_var] = extent_of(op)
        self.require(self.is_free(op.min) and self.is_free(op.extent))
        made: For = self.visit_inside(op)
        if op.loop_var in self.shorter:
            return replace(made, extent=p.const(self.size, op.extent.dtype))
        return made

    def visit_allocate_(self, op: Allocate) -> Any:
        """Memory of the tile alone."""
        self.own[op.buffer_var] = set()
        self.require(all(map(self.is_free, op.extents)))
        return self.visit_inside(op)

    def visit_evaluate_(self, op: Evaluate) -> Any:
        """Nothing: a call may do anything."""
        self.require(p.as_int(op.value) is not None)
        return op

    def visit_if_then_else_(self, op: IfThenElse) -> Any:
        """A test of the row's end is gone; others are moved."""
        parts = list(conjuncts(op.condition))
        found = [tile_of(c, self.loop.loop_var, self.extents) for c in parts]
        ends = [f for f in found if f is not None and f[0].is_same(self.tile)]
        if not ends:
            return self.visit_inside(op)
        self.require(op.else_case is None and self.steps is None)
        self.steps = ends[0][1]
        kept = [self.visit_expr(c) for c, f in zip(parts, found, strict=True) if f not in ends]
        then = self.visit_stmt(op.then_case)
        self.steps = None
        return replace(op, condition=p.all_of(*kept), then_case=then) if kept else then

    def visit_buffer_store_(self, op: BufferStore) -> Any:
        """A store to the tile's own memory, or to an element that follows the place."""
        self.require(op.predicate is None)
        value, indices = self.visit_expr(op.value), self.place(op)
        if op.buffer.data in self.own:
            self.made |= {op.buffer.data} if self.steps is not None else set()
        else:
            self.stored.add(op.buffer.data)
            self.require(self.steps is not None and not all(map(self.is_free, op.indices)))
        return replace(op, value=value, indices=indices)

    def visit_buffer_load_(self, op: BufferLoad) -> Any:
        """A load from an element that follows the place, or that all places read."""
        self.require(op.predicate is None)
        if op.buffer.data not in self.own:
            self.read.add(op.buffer.data)
        return replace(op, indices=self.place(op))

    def place(self, n: Any) -> tuple[e.PrimExpr, ...]:
        """The indices of an access; those of the tile's own memory stay."""
        if n.buffer.data not in self.own:
            return tuple(map(self.visit_expr, n.indices))
        steps = self.steps or {}
        forms = [of(index) for index in n.indices]
        for form in forms:
            self.require(not _parts(form).uses(self.variables))
            self.require(self.loop.loop_var not in form.terms)
        self.own[n.buffer.data].add(
            tuple(frozenset((steps[v], c) for v, c in f.terms.items() if v in steps) for f in forms)
        )
        return tuple(n.indices)

    @property
    def variables(self) -> set[e.Var]:
        """Those that say where in the row an element is."""
        return {self.loop.loop_var, *(self.steps or ())}

    def is_free(self, n: Any) -> bool:
        """Whether nothing in it depends on the place."""
        return not any(x in self.variables for x in walk(n) if isinstance(x, e.Var))

    def visit_expr(self, expr: Any) -> Any:
        """An expression of the place in the row, with that place from another start."""
        if not isinstance(expr, BufferLoad) and not self.is_free(expr):
            moved = self.moved(expr) if is_index(expr.dtype) else None
            if moved is not None:
                return moved
            self.require(type(expr) not in (e.Var, e.SizeVar, e.Let))
        return super().visit_expr(expr)

    def moved(self, n: e.PrimExpr) -> e.PrimExpr | None:
        """A sum with a multiple of the place in the row; None where it is in parts of the sum."""
        form = of(n)
        if _parts(form).uses(self.variables):
            return None
        times, rest = divmod(form.terms.get(self.loop.loop_var, 0), self.tile.width)
        self.require(rest == 0 and self.steps is not None)
        steps = (self.steps or {}).items()
        self.require(all(form.terms.get(v, 0) == times * c for v, c in steps))
        place = Sum(0, {self.start: times, self.loop.loop_var: -times * self.tile.width})
        return form.plus(place).expr(n.dtype)


def _parts(form: Sum) -> Sum:
    """The terms of a sum that are no variables."""
    return Sum(0, {a: c for a, c in form.terms.items() if not isinstance(a, e.Var)})


class OverlapTiles(PrimFuncPass):
    """Give rows of open length whole tiles alone, where a loop asks for it; the last begins early.

    The annotation `pragma_overlap_tiles` asks, on a loop over tiles whose rest a test leaves out.
    """

    work = staticmethod(overlap_tiles)
