"""PlanAndUpdateBufferAllocationLocation: a buffer is allocated where its uses meet.

with T.block("root"):                           with T.block("root"):
    B = T.alloc_buffer((16, 16))                    for i in range(16):
    for i in range(16):                  ->             with T.block(""):
        ... B[i, 0:16] = ...                                B = T.alloc_buffer((16, 16))
        ... = B[i, 0:16]                                    ... B ...

A buffer that a reduction updates, or that rolls, lives outside of the loops of that: what it holds
is needed in the next iteration.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, children, map_children, replace, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, For, IterType, Stmt


def plan_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """`func` with each local buffer moved to the innermost loop that holds all its uses."""
    allocated = _allocated(func.body)
    if not allocated:
        return func
    places = _common_ancestors(func.body, {id(b.data) for b in allocated})
    at: dict[int, list[Buffer]] = {}
    for buffer in allocated:
        home = places.get(id(buffer.data))
        if home is not None:
            at.setdefault(id(home), []).append(buffer)
    return func.with_body(_Placer(at).stmt(func.body))


def _allocated(body: Stmt) -> list[Buffer]:
    found: list[Buffer] = []

    def collect(n: Node) -> None:
        if isinstance(n, Block):
            found.extend(n.alloc_buffers)
        for child in children(n):
            if isinstance(child, Stmt):
                collect(child)

    collect(body)
    return found


def _common_ancestors(body: Stmt, wanted: set[int]) -> dict[int, Node]:
    """data pointer -> the innermost For or Block that all accesses of it stand in."""
    paths: dict[int, list[Node]] = {}
    stack: list[Node] = []
    carried = _Carried()

    def touch(data: Var, written: bool = False) -> None:
        if id(data) not in wanted:
            return
        here = carried.outside(stack) if written else stack
        if id(data) not in paths:
            paths[id(data)] = list(here)
            return
        old = paths[id(data)]
        same = 0
        while same < min(len(old), len(here)) and old[same] is here[same]:
            same += 1
        del old[same:]

    def visit(n: Node) -> None:
        if isinstance(n, BufferLoad | BufferStore):
            touch(n.buffer.data, isinstance(n, BufferStore))
        if isinstance(n, Var) and n.pointee is not None:
            touch(n)
        if isinstance(n, BlockRealize):
            carried.enter(n)
        opens = isinstance(n, For | Block)
        if opens:
            stack.append(n)
        parts: list[Node]
        if isinstance(n, Block):
            parts = [x for x in (*n.match_buffers, n.init, n.body) if x is not None]
        else:
            parts = [x for x in children(n) if not isinstance(x, Buffer)]
        for part in parts:
            visit(part)
        if opens:
            stack.pop()

    visit(body)
    return {data: path[-1] for data, path in paths.items() if path}


class _Carried:
    """The loop variables that order the instances of a block: those of its axes that are not
    spatial.
    """

    def __init__(self) -> None:
        self.loops: dict[Var, set[Var]] = {}
        self.blocks: dict[int, set[Var]] = {}

    def enter(self, n: BlockRealize) -> None:
        """A block is run: its axes stand for the loop variables in their values."""
        found: set[Var] = set()
        for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
            used = [v for v in walk(value) if isinstance(v, Var)]
            behind = {x for v in used for x in self.loops.get(v, {v})}
            self.loops[axis.var] = behind
            if axis.iter_type is not IterType.SPATIAL:
                found |= behind
        self.blocks[id(n.block)] = found

    def outside(self, stack: list[Node]) -> list[Node]:
        """The part of a path that is outside of all loops which order a block on it."""
        ordered = {v for n in stack for v in self.blocks.get(id(n), ())}
        for depth, n in enumerate(stack):
            if isinstance(n, For) and n.loop_var in ordered:
                return stack[:depth]
        return stack


class _Placer:
    """Rebuilds the tree with allocations in their new homes."""

    def __init__(self, at: dict[int, list[Buffer]]) -> None:
        self.at = at

    def stmt(self, n: Any) -> Any:
        if not isinstance(n, Stmt):
            return n
        here = tuple(self.at.get(id(n), ()))
        rebuilt: Any = map_children(n, self.stmt)
        if isinstance(n, Block):
            return replace(rebuilt, alloc_buffers=here)
        if isinstance(n, For) and here:
            return replace(rebuilt, body=_opaque_block(rebuilt.body, here))
        return rebuilt


def _opaque_block(body: Stmt, buffers: tuple[Buffer, ...]) -> BlockRealize:
    block = Block((), (), (), "", body, alloc_buffers=buffers)
    return BlockRealize((), p.const(True), block)


class PlanAndUpdateBufferAllocationLocation(PrimFuncPass):
    """Move each block-local buffer to the innermost loop that holds all of its uses."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `plan_buffer_allocation`."""
        return plan_buffer_allocation(func)
