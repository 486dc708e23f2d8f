"""A plan for the memory of a whole function: what lives when, and in whose place.

for i in range(n):                          A = T.allocate([200], "float32", "global")
    A = T.allocate([200], …)                for i in range(n):
    ... A ...                       ->          ... A ...
    B = T.allocate([200], …)                    ... B in the memory of A ...
    ... B ...

Time is counted in statements. An allocation lives from the first to the last of those that touch
it where it was made; of a loop that runs in between, all of it. Memory lies at the top, or where
threads begin. B may take the place of A when A is dead, or where the statement that fills B is the
last that reads A, element by element. Memory of a kind of its own, as "local.L0A", becomes one
allocation.
As TVM's `StorageRewrite`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlcnb.core.node import children, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import THREAD_AXES, bound_axis
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.constants import is_plain
from mlcnb.tir.functor import StmtFunctor

#: statements that open a scope: what is in them may run more than once, or not at all
SCOPES = (s.For, s.While, s.IfThenElse)
#: sizes that are further apart than this do not share
MATCH = 16
#: bits of what lives in a register
REGISTER = 32
#: kinds of memory that code generators know
_KNOWN = ("dyn", "workspace", "vtcm")


@dataclass(frozen=True, eq=False)
class Touch:
    """A statement that touches an allocation, and when it begins and ends."""

    stmt: s.Stmt
    start: int
    end: int


@dataclass(eq=False)
class Life:
    """An allocation, the scopes around it, and what touches it."""

    made: s.Allocate
    path: tuple[s.Stmt, ...]
    touches: list[Touch] = field(default_factory=list)
    is_flat: bool = True
    home: Home | None = None

    @property
    def scope(self) -> str:
        """Where the memory lies: "global", "local", …"""
        return self.made.scope

    @property
    def bits(self) -> int | None:
        """Size, where it is a number."""
        sizes = [p.as_int(n) for n in self.made.extents]
        return None if None in sizes else prod(sizes) * self.made.dtype.nbytes * 8  # type: ignore[arg-type]

    @property
    def attach(self) -> s.Stmt | None:
        """The innermost statement that makes threads; None: the function."""
        return next((n for n in reversed(self.path) if makes_threads(n)), None)

    @property
    def moves(self) -> bool:
        """Whether the memory is made further out than the allocation stands."""
        return bool(self.path) and self.path[-1] is not self.attach


@dataclass(eq=False)
class Home:
    """Memory that one allocation or several live in, one after the other."""

    first: Life
    bits: int | None
    members: list[Life] = field(default_factory=list)
    #: of merged memory: what it lies in, where it begins, and the size of all of it, in bits
    within: Home = None  # type: ignore[assignment]
    offset: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        self.within = self

    @property
    def extents(self) -> tuple[PrimExpr, ...]:
        """What to allocate, in elements of the first member."""
        sizes = [x.made.extents for x in self.members]
        bits = self.total or self.bits
        if bits is None or (not self.total and all(structural_equal(sizes[0], x) for x in sizes)):
            return sizes[0]
        return (p.const(-(-bits // (self.first.made.dtype.nbytes * 8))),)

    @property
    def is_special(self) -> bool:
        """Memory of a kind of its own."""
        scope, _, tag = self.first.scope.partition(".")
        return bool(tag) and scope not in ("wmma", "m16n8k8") and tag not in _KNOWN


def makes_threads(n: s.Stmt) -> bool:
    """True for a statement whose body runs in several threads."""
    if isinstance(n, s.For) and n.kind is s.ForKind.PARALLEL:
        return True
    return bound_axis(n) in THREAD_AXES or (
        isinstance(n, s.AttrStmt) and n.attr_key == "virtual_thread"
    )


class Lives(StmtFunctor):
    """The allocations of a body and what touches them, in order."""

    def __init__(self, body: s.Stmt) -> None:
        self.of: dict[Var, Life] = {}
        #: pointers that are kept elsewhere, or made twice: their memory stays as it is
        self.fixed: set[Var] = set()
        self.clock = 0
        self.pending: dict[s.Stmt, list[Life]] = {}
        self.lets: set[Any] = {x.var for x in walk(body) if isinstance(x, s.LetStmt)}
        self.visit_stmt(body, ())

    def visit_stmt(self, n: Any, path: tuple[s.Stmt, ...]) -> None:
        """Statements in order, `path` the scopes around them."""
        if isinstance(n, SCOPES) or makes_threads(n):
            self.scope(n, path)
        else:
            super().visit_stmt(n, path)

    def visit_decl_buffer_(self, n: s.DeclBuffer, path: tuple[s.Stmt, ...]) -> None:
        """A view of memory."""
        if n.buffer.axis_separators and n.buffer.data in self.of:
            self.of[n.buffer.data].is_flat = False
        self.visit_stmt(n.body, path)

    def visit_allocate_(self, n: s.Allocate, path: tuple[s.Stmt, ...]) -> None:
        """An allocation; it stays where it is if its size is not known further out."""
        if n.buffer_var in self.of or not is_plain(n) or not p.is_const(n.condition, 1):
            self.fixed.add(n.buffer_var)
        life = Life(n, path)
        between = path[path.index(life.attach) + 1 :] if life.attach in path else path
        bound = self.lets.union(x.loop_var for x in between if isinstance(x, s.For))
        if any(v in bound for extent in n.extents for v in walk(extent)):
            self.fixed.add(n.buffer_var)
        self.of[n.buffer_var] = life
        self.visit_stmt(n.body, path)

    def scope(self, n: Any, path: tuple[s.Stmt, ...]) -> None:
        """A scope: what it holds touches what was made outside all the while."""
        start, inner = self.clock, (*path, n)
        self.clock += 1
        found: dict[Var, None] = {}
        for child in children(n):
            if isinstance(child, s.Stmt):
                self.visit_stmt(child, inner)
            else:
                found.update(dict.fromkeys(_mentioned(child)))
        for var in found:
            self.touch(var, n, inner, start)
        for life in self.pending.pop(n, ()):
            life.touches.append(Touch(n, start, self.clock))
        self.clock += 1

    def visit_inside(self, n: Any, path: tuple[s.Stmt, ...]) -> None:
        """Any other statement; a pointer that it keeps, or marks, is fixed."""
        inner = [c for c in children(n) if isinstance(c, s.Stmt)]
        if not isinstance(n, s.SeqStmt):
            self.clock += 1
            for var in _own(n, inner):
                self.touch(var, n, path, self.clock)
                if isinstance(n, s.AttrStmt) or (
                    isinstance(n, s.LetStmt) and n.value.dtype.is_handle
                ):
                    self.fixed.add(var)
        for child in inner:
            self.visit_stmt(child, path)

    def touch(self, var: Var, n: s.Stmt, path: tuple[s.Stmt, ...], now: int) -> None:
        """Something touches `var`: noted of the statement next to its allocation."""
        life = self.of.get(var)
        if life is None:
            return
        depth = len(life.path)
        if path[:depth] != life.path:
            self.fixed.add(var)
        elif len(path) > depth:
            waiting = self.pending.setdefault(path[depth], [])
            if life not in waiting:
                waiting.append(life)
        else:
            life.touches.append(Touch(n, now, now))


def _mentioned(n: Any) -> Iterator[Var]:
    """The variables in an expression, pointers of buffers among them."""
    return (x for x in walk(n) if isinstance(x, Var))


def _own(n: s.Stmt, inner: list[Any]) -> dict[Var, None]:
    """What a statement mentions besides the statements in it."""
    return {v: None for c in children(n) if c not in inner for v in _mentioned(c)}


def homes(lives: Lives, at_least: int) -> list[Home]:
    """Where each allocation lives; those that stay as they are have no home.

    at_least: allocations of fewer bytes stay.
    """
    found: list[Home] = []
    free: list[Home] = []
    planned = [x for x in lives.of.values() if _is_planned(x, lives, at_least)]
    waiting = sorted(planned, key=lambda x: x.touches[0].start)
    alive: list[Life] = []
    for life in waiting:
        ended = [x for x in alive if x.touches[-1].end < life.touches[0].start]
        alive = [x for x in alive if x not in ended]
        free += [x.home for x in sorted(ended, key=lambda x: x.touches[-1].end) if x.home]
        home = _in_place(life, alive) or _reused(life, free)
        if home is None:
            home = Home(life, life.bits)
            found.append(home)
        elif home in free:
            free.remove(home)
        else:
            alive = [x for x in alive if x.home is not home]
        home.bits = life.bits if home.bits is None else max(home.bits, life.bits or 0)
        home.members.append(life)
        life.home = home
        alive.append(life)
    _merge_special(found)
    return found


def _is_planned(life: Life, lives: Lives, at_least: int) -> bool:
    """Whether an allocation may move: threads do not share it, and nobody keeps its pointer."""
    if life.made.buffer_var in lives.fixed or not life.touches or life.scope.startswith("shared"):
        return False
    return life.bits is None or life.bits // 8 >= at_least


def _agree(life: Life, home: Home) -> bool:
    """Whether the memory lies in the same place and holds the same."""
    first = home.first
    if first.scope != life.scope or first.attach is not life.attach:
        return False
    return home.is_special or first.made.dtype == life.made.dtype


def _reused(life: Life, free: list[Home]) -> Home | None:
    """The smallest of what is free and large enough, else the largest of what may grow."""
    fitting = [h for h in free if _agree(life, h) and h.first.is_flat and life.is_flat]
    if life.bits is None:
        return next((h for h in fitting if h.bits is None and _same_size(h.first, life)), None)
    if life.bits <= REGISTER:
        return None
    sized = [h for h in fitting if h.bits is not None and h.bits > REGISTER]
    larger = [h for h in sized if life.bits <= h.bits <= life.bits * MATCH]  # type: ignore[operator]
    if larger:
        return min(larger, key=lambda h: h.bits or 0)
    smaller = [h for h in sized if life.bits // MATCH <= h.bits < life.bits]  # type: ignore[operator]
    return max(smaller, key=lambda h: h.bits or 0, default=None)


def _same_size(a: Life, b: Life) -> bool:
    return structural_equal(a.made.extents, b.made.extents)


def _in_place(life: Life, alive: list[Life]) -> Home | None:
    """The home of what dies in the very statement that fills this one, element by element."""
    first = life.touches[0]
    for other in alive:
        if other.home is None or other.touches[-1].stmt is not first.stmt:
            continue
        if other.bits != life.bits or life.bits is None or other.made.dtype != life.made.dtype:
            continue
        if _agree(life, other.home) and _is_elementwise(
            first.stmt, other.made.buffer_var, life.made.buffer_var
        ):
            return other.home
    return None


def _is_elementwise(n: s.Stmt, source: Var, target: Var) -> bool:
    """True if each element of `target` is stored once, when the same element of `source` is read.

    The store's indices are the variables of the loops around it, each by itself.
    """
    accesses = [x for x in walk(n) if isinstance(x, BufferLoad | s.BufferStore)]
    mine = [x for x in accesses if x.buffer.data in (source, target)]
    stores = [x for x in mine if isinstance(x, s.BufferStore)]
    if len(stores) != 1 or stores[0].buffer.data is not target:
        return False
    store = stores[0]
    loads = [x for x in walk(store) if isinstance(x, BufferLoad) and x in mine]
    if len(loads) + 1 != len(mine) or sum(x in (source, target) for x in walk(n)) != len(mine):
        return False
    if not all(x.buffer.data is source and _same_place(x, store) for x in loads):
        return False
    around = [x for x in walk(n) if isinstance(x, SCOPES)]
    return all(isinstance(x, s.For) and x.loop_var in store.indices for x in around)


def _same_place(load: BufferLoad, store: s.BufferStore) -> bool:
    one, two = load.buffer, store.buffer
    layout, other = ((b.shape, b.strides, b.elem_offset, b.axis_separators) for b in (one, two))
    return structural_equal(load.indices, store.indices) and structural_equal(layout, other)


def _merge_special(found: list[Home]) -> None:
    """Homes of one special scope lie one behind the other, in the first of them."""
    ends: dict[tuple[str, Any], tuple[Home, int]] = {}
    for home in found:
        if not home.is_special or home.bits is None:
            continue
        key = home.first.scope, home.first.attach
        first, end = ends.get(key, (home, 0))
        unit = max(x.made.dtype.nbytes * 8 for x in home.members)
        home.within, home.offset = first, -(-end // unit) * unit
        ends[key] = first, home.offset + home.bits
        first.total = home.offset + home.bits
