"""StorageRewrite: memory that is no longer needed is used again.

A = T.allocate([1024], "float32", "global")        A = T.allocate([1024], "float32", "global")
B = T.allocate([1024], "float32", "global")        B = T.allocate([1024], "float32", "global")
C = T.allocate([1024], "float32", "global")        ... A ... ;  ... A, B ...
... A ... ;  ... A, B ... ;  ... B, C ...    ->    ... B, C in the memory of A ...

What lives when, and in whose place, is planned by `storage_plan`. Memory that threads share is left
alone: a barrier would be needed where its user changes.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.groups import grouped
from mlcnb.core.node import replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.cost import allocated_bytes
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, nested, substitute
from mlcnb.tir.stmt import Allocate, DeclBuffer, Stmt, flattened
from mlcnb.tir.transform.storage_plan import Home, Life, Lives, homes


def rewrite_storage(func: PrimFunc, at_least: int = 0) -> PrimFunc:
    """`func` with allocations that share memory where their lives do not meet; all others stay
    where they are.

    Args:
        func: a function without blocks.
        at_least: smaller allocations, in bytes, are left alone: they live in registers or on the
            stack, which the code generator shares by itself.
    """
    made = (Life(x, ()) for x in statements(func.body) if isinstance(x, Allocate))
    if sum((x.bits or 0) // 8 >= at_least for x in made) < 2:
        return func
    found = homes(Lives(func.body), at_least)
    shared = [h for h in found if len(h.members) > 1 and h.bits is not None and not h.is_special]
    return func.with_body(_Mover(func.body, shared, set()).body) if shared else func


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
        self.made = grouped((home.first.attach, home) for home in found if home.within is home)
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
        body = nested(self.declared.get(attach, []), body)
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
