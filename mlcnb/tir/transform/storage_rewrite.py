"""StorageRewrite: memory that is no longer needed is used again.

A = T.allocate([1024], "float32", "global")        A = T.allocate([1024], "float32", "global")
B = T.allocate([1024], "float32", "global")        B = T.allocate([1024], "float32", "global")
C = T.allocate([1024], "float32", "global")        ... A ... ;  ... A, B ...
... A ... ;  ... A, B ... ;  ... B, C ...    ->    ... B, C in the memory of A ...

Allocations that stand around the same statements are looked at together; each lives from the first
of the statements that mentions it to the last. Two share memory where scope and dtype are the same
and their lives do not meet: the one that ends first hands over to the best fit, which may grow.
Memory that threads share is left alone: a barrier would be needed where its user changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import allocated_bytes
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.constants import is_plain
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, substitute
from mlcnb.tir.stmt import Allocate, DeclBuffer, Stmt, flattened
from mlcnb.tir.transform.storage_plan import Home, Lives, homes

#: statements that stand around others, in which all of a body's allocations are found
_AROUND = (s.Allocate, s.DeclBuffer, s.LetStmt, s.AttrStmt, s.AssertStmt)


@dataclass(frozen=True, slots=True)
class Life:
    """An allocation, and the first and last of the statements that use it."""

    made: s.Allocate
    first: int
    last: int

    @property
    def size(self) -> int:
        """In elements."""
        return prod(p.as_int(n) or 0 for n in self.made.extents)

    @property
    def kind(self) -> Any:
        """What two allocations must have in common."""
        return self.made.dtype, self.made.scope


def rewrite_storage(func: PrimFunc, at_least: int = 0) -> PrimFunc:
    """`func` with allocations that share memory where their lives do not meet.

    Args:
        func: a function without blocks.
        at_least: smaller allocations, in bytes, are left alone: they live in registers or on the
            stack, which the code generator shares by itself.
    """
    return func.with_body(_visit(func.body, at_least))


def _visit(n: Any, at_least: int) -> Any:
    """The statements of a body, from the outside in."""
    if not isinstance(n, s.Stmt):
        return n
    around, inner = _peeled(n)
    if sum(isinstance(x, s.Allocate) for x in around) > 1 and isinstance(inner, s.SeqStmt):
        homes = _merged(_lives(around, inner, at_least))
        if any(life.made.buffer_var is not v for v, life in homes.items()):
            n = _shared(around, inner, homes)
    return _below(n, at_least)


def _below(n: s.Stmt, at_least: int) -> s.Stmt:
    """`n`, with the bodies of what stands in its innermost sequence visited."""
    changes: dict[str, Any] = {}
    for name in n.child_fields:
        value = getattr(n, name)
        if isinstance(value, s.Stmt):
            visit = _below if isinstance(n, _AROUND) else _visit
            changes[name] = visit(value, at_least)
        elif isinstance(value, tuple) and value and isinstance(value[0], s.Stmt):
            changes[name] = tuple(_visit(x, at_least) for x in value)
    return replace(n, **changes)


def _peeled(n: s.Stmt) -> tuple[list[s.Stmt], s.Stmt]:
    """The statements around a body, and the body."""
    around: list[s.Stmt] = []
    while isinstance(n, _AROUND):
        around.append(n)
        n = n.body
    return around, n


def _merged(lives: list[Life]) -> dict[Var, Life]:
    """Pointer -> the life whose memory it shall use, grown to what all of its users need."""
    homes: dict[Var, Life] = {}
    owners: dict[Var, Life] = {}
    for life in sorted(lives, key=lambda x: x.first):
        free = [o for o in owners.values() if o.kind == life.kind and o.last < life.first]
        best = min(free, key=lambda o: abs(o.size - life.size)) if free else life
        larger = max(best, life, key=lambda o: o.size).made.extents
        made = replace(best.made, extents=larger)
        owners[made.buffer_var] = Life(made, best.first, life.last)
        homes[life.made.buffer_var] = best
    return {v: owners[home.made.buffer_var] for v, home in homes.items()}


def _lives(around: list[s.Stmt], body: s.SeqStmt, at_least: int) -> list[Life]:
    """The lives of the allocations that may share: of fixed size, used by the statements alone."""
    fixed: set[Var] = set().union(*(_used(*_own_parts(x)) for x in around))
    uses = [_used(x) for x in body.seq]
    lives = []
    for made in around:
        if not isinstance(made, s.Allocate) or made.buffer_var in fixed or not is_plain(made):
            continue
        if made.buffer_var.pointee and made.buffer_var.pointee[1].startswith("shared"):
            continue
        at = [i for i, used in enumerate(uses) if made.buffer_var in used]
        life = Life(made, at[0], at[-1]) if at else None
        if life is not None and life.kind[1] in SHARED_SCOPES:
            continue  # a thread may still read what another one overwrites: no barrier is between
        if life is not None and life.size * made.dtype.nbytes >= max(1, at_least):
            lives.append(life)
    return lives


def _used(*parts: Node) -> set[Var]:
    """The variables that some nodes mention, pointers of buffers among them."""
    return {x for part in parts for x in walk(part) if isinstance(x, Var)}


def _own_parts(n: s.Stmt) -> list[Node]:
    """What a statement around a body holds besides the body."""
    if isinstance(n, s.Allocate | s.DeclBuffer):
        return []
    values = (getattr(n, name) for name in n.child_fields if name != "body")
    return [x for x in values if isinstance(x, Node)]


def _shared(around: list[s.Stmt], body: s.Stmt, homes: dict[Var, Life]) -> s.Stmt:
    """The body with what stands around it: the memory that is left first, then the rest."""
    for n in reversed(around):
        if not (isinstance(n, s.Allocate) and n.buffer_var in homes):
            body = replace(n, body=body)  # type: ignore[call-arg]
    moved = {v: life.made.buffer_var for v, life in homes.items()}
    body = substitute(body, {v: to for v, to in moved.items() if to is not v})
    for made in {id(life.made): life.made for life in homes.values()}.values():
        body = replace(made, body=body)
    return body


class StorageRewrite(PrimFuncPass):
    """Use memory again where the lives of allocations do not meet.

    at_least: allocations of fewer bytes are left alone.
    """

    at_least: int = 0

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `mlcnb.tir.transform.storage_plan`."""
        after = plan_storage(func, self.at_least)
        if after is not func:
            ctx.note(f"{allocated_bytes(func)} -> {allocated_bytes(after)} bytes")
        return after


def plan_storage(func: PrimFunc, at_least: int = 0) -> PrimFunc:
    """`func` with its allocations where the plan puts them; itself where that changes nothing.

    Args:
        func: a function without blocks.
        at_least: smaller allocations, in bytes, stay as they are.
    """
    lives = Lives(func.body)
    found = homes(lives, at_least)
    unused = {v for v, x in lives.of.items() if not x.touches and v not in lives.fixed}
    shared = any(len(h.members) > 1 or h.within is not h or h.first.moves for h in found)
    if not shared and not unused:
        return func
    return func.with_body(_Mover(func.body, found, unused).body)


class _Mover:
    """Takes the allocations out of a body, and puts the homes where they belong."""

    def __init__(self, body: Stmt, found: list[Home], unused: set[Var]) -> None:
        self.home_of = {x.made.buffer_var: h for h in found for x in h.members}
        self.gone = {*unused, *self.home_of}
        self.unused = unused
        self.declared: dict[Any, list[DeclBuffer]] = {}
        self.made: dict[Any, list[Home]] = {}
        for home in found:
            if home.within is home:
                self.made.setdefault(home.first.attach, []).append(home)
        moved = self.around(None, self.rebuilt(body))
        moved = rewrite(moved, self.shifted)
        to = {v: h.within.first.made.buffer_var for v, h in self.home_of.items()}
        self.body: Stmt = substitute(moved, {v: new for v, new in to.items() if new is not v})

    def rebuilt(self, n: Any) -> Any:
        """A statement without the allocations that have a home."""
        if isinstance(n, Allocate) and n.buffer_var in self.gone:
            return self.rebuilt(n.body)
        if isinstance(n, DeclBuffer) and self.rises(n):
            return self.rebuilt(n.body)
        done = map_bodies(n, self.rebuilt)
        if n in self.made:
            done = replace(done, body=self.around(n, done.body))
        return flattened(done) or done

    def rises(self, n: DeclBuffer) -> bool:
        """Whether a declaration goes, with what is unused, or moves with its memory."""
        buffer = n.buffer
        if buffer.data in self.unused:
            return True
        home = self.home_of.get(buffer.data)
        if home is None or not any(
            x.made.buffer_var is buffer.data and x.moves for x in home.members
        ):
            return False
        sizes = (*buffer.shape, *buffer.strides, buffer.elem_offset or 0)
        if any(p.as_int(x) is None for x in sizes):
            return False
        self.declared.setdefault(home.first.attach, []).append(n)
        return True

    def around(self, attach: Stmt | None, body: Stmt) -> Stmt:
        """The memory of one place, and what is declared there, around its body."""
        for n in reversed(self.declared.get(attach, [])):
            body = replace(n, body=body)
        for home in self.made.get(attach, []):
            body = replace(home.first.made, extents=home.extents, body=body)
        return body

    def shifted(self, n: Any) -> Any:
        """A buffer in merged memory begins behind those before it."""
        if not isinstance(n, Buffer) or n.data not in self.home_of:
            return None
        start = self.home_of[n.data].offset // (n.dtype.nbytes * 8)
        if not start:
            return None
        before = p.const(0) if n.elem_offset is None else n.elem_offset
        return replace(n, elem_offset=p.add(before, start))
