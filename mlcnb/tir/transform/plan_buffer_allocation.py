"""PlanAndUpdateBufferAllocationLocation: a buffer is allocated where its uses meet.

with T.block("root"):                           with T.block("root"):
    B = T.alloc_buffer((16, 16))                    for i in range(16):
    for i in range(16):                  ->             with T.block(""):
        ... B[i, 0:16] = ...                                B = T.alloc_buffer((16, 16))
        ... = B[i, 0:16]                                    ... B ...

Not into a loop that carries values of the buffer from one iteration to the next, nor into a while,
nor between the lanes of a vectorized loop (which has none where each iteration starts a kernel).
Parallel loops carry none, or the program were wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from mlcnb.core.groups import grouped
from mlcnb.core.node import Node, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import InBlock, InLoop, Scope
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.analysis.carried import ORDERED, Carried
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, rewrite_statements
from mlcnb.tir.stmt import Block, BlockRealize, For, ForKind, Stmt, While


def plan_buffer_allocation(func: PrimFunc, ordered: Sequence[ForKind] = ORDERED) -> PrimFunc:
    """`func` with each local buffer moved to the innermost loop or block that holds all its uses.

    A buffer stays outside of a loop whose iterations hand its values to later ones.

    ordered: the kinds of loops that may do so; iterations of others always have their own.
    """
    homes = list(_homes(func.body, ordered))
    if not homes:
        return func
    at = grouped((home, buffer) for buffer, home in homes if home is not None)
    return func.with_body(_Placer(at).stmt(func.body))


def _homes(body: Stmt, ordered: Sequence[ForKind]) -> Iterator[tuple[Buffer, Node | None]]:
    """Each local buffer and the loop or block that it shall live in; None: nobody uses it."""
    owners = [n for n in statements(body) if isinstance(n, Block) and n.alloc_buffers]
    if not owners:
        return
    pointers = [b.data for n in owners for b in n.alloc_buffers]
    for owner in owners:
        carried = Carried(owner.body, owner.alloc_buffers)
        paths = _paths(carried.found.reading)
        for buffer in owner.alloc_buffers:
            path = paths.get(buffer.data)
            if pointers.count(buffer.data) > 1 or owner.init is not None:
                yield buffer, owner  # copies of a block each have memory of their own
            elif path is None:
                yield buffer, None
            else:
                yield buffer, _innermost(owner, path, buffer, carried, ordered)


def _innermost(
    owner: Block, path: list[Stmt], buffer: Buffer, carried: Carried, ordered: Sequence[ForKind]
) -> Node:
    """The last place of a path before a loop that carries values of the buffer."""
    home: Node = owner
    starts = next((k for k, n in enumerate(path) if bound_axis(n) is not None), 0)
    for place, n in enumerate(path):
        has_lanes = isinstance(n, For) and n.kind is ForKind.VECTORIZED and place >= starts
        if isinstance(n, While) or has_lanes:
            break
        if isinstance(n, For) and n.kind in ordered and not carried.is_private(buffer, n):
            break
        home = n
    return home


def _paths(reading: Reading) -> dict[Var, list[Stmt]]:
    """Pointer -> the loops and blocks that all accesses of it stand in, outermost first."""
    uses = [(access.buffer.data, access.scope) for access in reading.accesses]
    for placed in reading.statements:
        if isinstance(placed.stmt, BlockRealize):
            inside = placed.scope.block(placed.stmt, False)
            matched = placed.stmt.block.match_buffers
            uses += [(match.source.buffer.data, inside) for match in matched]
    paths: dict[Var, list[Stmt]] = {}
    for data, scope in uses:
        path = [*_path(scope)]
        pairs = takewhile(lambda x: x[0] is x[1], zip(paths.get(data, path), path, strict=False))
        paths[data] = [n for n, _ in pairs]
    return paths


def _path(scope: Scope) -> Iterator[Stmt]:
    """The loops and blocks around a place, outermost first."""
    for x in scope.around():
        if isinstance(x, InLoop) and isinstance(x.node, For | While):
            yield x.node
        elif isinstance(x, InBlock):
            yield x.node.block


class _Placer:
    """Rebuilds the tree with allocations in their new homes."""

    def __init__(self, at: dict[Node, list[Buffer]]) -> None:
        self.at = at

    def stmt(self, n: Any) -> Any:
        here = tuple(self.at.get(n, ()))
        rebuilt: Any = map_bodies(n, self.stmt)
        if isinstance(n, Block):
            return rebuilt if here == n.alloc_buffers else replace(rebuilt, alloc_buffers=here)
        if isinstance(n, For) and here:
            return replace(rebuilt, body=_opaque_block(rebuilt.body, here))
        return rebuilt


def _opaque_block(body: Stmt, buffers: tuple[Buffer, ...]) -> BlockRealize:
    block = Block((), (), (), "", body, alloc_buffers=buffers)
    return BlockRealize((), p.const(True), block)


class PlanAndUpdateBufferAllocationLocation(PrimFuncPass):
    """Move each block-local buffer to the innermost loop that holds all of its uses."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `plan_buffer_allocation`; the new blocks say what they read and write."""
        planned = plan_buffer_allocation(func)
        if planned is func:
            return func
        return planned.with_body(rewrite_statements(planned.body, _completed))


def _completed(n: Node) -> Node | None:
    is_new = isinstance(n, Block) and n.alloc_buffers and not n.name_hint
    if is_new and not (n.iter_vars or n.reads or n.writes):  # type: ignore[attr-defined]
        return complete_regions(n)  # type: ignore[arg-type]
    return None
