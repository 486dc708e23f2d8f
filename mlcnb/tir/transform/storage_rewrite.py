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

from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.cost import allocated_bytes
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.constants import is_plain
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    LetStmt,
    SeqStmt,
    Stmt,
)
from mlcnb.tir.transform.storage_move import plan_storage

#: statements that stand around others, in which all of a body's allocations are found
_AROUND = (Allocate, DeclBuffer, LetStmt, AttrStmt, AssertStmt)


@dataclass(frozen=True, slots=True)
class Life:
    """An allocation, and the first and last of the statements that use it."""

    made: Allocate
    first: int
    last: int

    @property
    def size(self) -> int:
        """In elements."""
        return prod(p.as_int(n) or 0 for n in self.made.extents)

    @property
    def kind(self) -> Any:
        """What two allocations must have in common."""
        pointee = self.made.buffer_var.pointee
        return self.made.dtype, pointee[1] if pointee else "global"


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
    if not isinstance(n, Stmt):
        return n
    around, inner = _peeled(n)
    if sum(isinstance(x, Allocate) for x in around) > 1 and isinstance(inner, SeqStmt):
        homes = _merged(_lives(around, inner, at_least))
        if any(life.made.buffer_var is not v for v, life in homes.items()):
            n = _shared(around, inner, homes)
    return _below(n, at_least)


def _below(n: Stmt, at_least: int) -> Stmt:
    """`n`, with the bodies of what stands in its innermost sequence visited."""
    changes = {}
    for name in n.child_fields:
        value = getattr(n, name)
        if isinstance(value, Stmt):
            visit = _below if isinstance(n, _AROUND) else _visit
            changes[name] = visit(value, at_least)
        elif isinstance(value, tuple) and value and isinstance(value[0], Stmt):
            new = tuple(_visit(x, at_least) for x in value)
            same = all(a is b for a, b in zip(new, value, strict=True))
            changes[name] = value if same else new
    return replace(n, **changes) if changes else n


def _peeled(n: Stmt) -> tuple[list[Stmt], Stmt]:
    """The statements around a body, and the body."""
    around: list[Stmt] = []
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


def _lives(around: list[Stmt], body: SeqStmt, at_least: int) -> list[Life]:
    """The lives of the allocations that may share: of fixed size, used by the statements alone."""
    fixed: set[Var] = set().union(*(_used(*_own_parts(x)) for x in around))
    uses = [_used(x) for x in body.seq]
    lives = []
    for made in around:
        if not isinstance(made, Allocate) or made.buffer_var in fixed or not is_plain(made):
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


def _own_parts(n: Stmt) -> list[Node]:
    """What a statement around a body holds besides the body."""
    if isinstance(n, Allocate | DeclBuffer):
        return []
    values = (getattr(n, name) for name in n.child_fields if name != "body")
    return [x for x in values if isinstance(x, Node)]


def _shared(around: list[Stmt], body: Stmt, homes: dict[Var, Life]) -> Stmt:
    """The body with what stands around it: the memory that is left first, then the rest."""
    for n in reversed(around):
        if not (isinstance(n, Allocate) and n.buffer_var in homes):
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
