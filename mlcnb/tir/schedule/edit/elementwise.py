"""Blocks that are one store: what can be inlined, and how.

with T.block("B"):                              value     A[v_i, v_j] * 2
    v_i, v_j = ...                              indices   v_i, v_j
    B[v_i, v_j] = A[v_i, v_j] * 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.arith.inverse import solved
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.schedule.edit.rebuild import Rebuilder, rewrite_values


def axis_bounds(block: s.Block) -> dict[e.Var, Bounds]:
    """Constant bounds of the axes of a block."""
    found: dict[e.Var, Bounds] = {}
    for axis in block.iter_vars:
        low, count = of(axis.dom.min).value, of(axis.dom.extent).value
        high = None if low is None or count is None else low + count - 1
        found[axis.var] = (low, high)
    return found


def inverted(
    block: s.Block,
    indices: Sequence[e.PrimExpr],
    given: Sequence[Sum],
    known: Mapping[e.Var, Bounds],
) -> dict[e.Var, Sum] | None:
    """The axes of a block as sums of what its indices are given as; None where they do not
    follow.
    """
    bounds = axis_bounds(block)
    context = Context(bounds)
    return solved([of(i, context) for i in indices], given, bounds, {**known, **bounds})


def hits(
    indices: Sequence[e.PrimExpr],
    given: Sequence[Sum],
    values: Mapping[e.Var, Sum],
    known: Mapping[e.Var, Bounds],
) -> bool:
    """True if the indices surely are the given ones where the variables take those values."""
    context = Context(known, values)
    gaps = (of(i, context).minus(g) for i, g in zip(indices, given, strict=True))
    return all(gap.bounds(known) == (0, 0) for gap in gaps)


def loads_of(x: Any, buffer: Buffer) -> list[BufferLoad]:
    """All loads of a buffer in an expression or a statement."""
    return [n for n in walk(x) if isinstance(n, BufferLoad) and n.buffer is buffer]


class LoadRule(Rebuilder):
    """Loads of one buffer replaced by what a rule makes of their (already rebuilt) indices."""

    def __init__(
        self,
        buffer: Buffer,
        rule: Callable[[tuple[e.PrimExpr, ...]], e.PrimExpr],
        forward: dict[s.Stmt, s.Stmt],
    ) -> None:
        super().__init__(forward)
        self.buffer = buffer
        self.rule = rule

    def expr(self, x: e.PrimExpr) -> e.PrimExpr:
        """Loads anywhere in an expression."""
        return rewrite_values(x, self._load)

    def _load(self, n: Node) -> Node | None:
        if isinstance(n, BufferLoad) and n.buffer is self.buffer:
            return self.rule(n.indices)
        return None

    def on_Block(self, n: s.Block) -> Any:
        """A block whose body changes gets its regions anew."""
        body = self.stmt(n.body)
        init = None if n.init is None else self.stmt(n.init)
        if body is n.body and init is n.init:
            return n
        return refreshed(replace(n, body=body, init=init))


def refreshed(block: s.Block) -> s.Block:
    """The block with reads and writes as its body has them."""
    reads, writes = detect_buffer_access(block)
    return replace(block, reads=reads, writes=writes)


def within_buffers(block: s.Block) -> s.Block:
    """The block with its regions cut to what the buffers have: predicates keep accesses in
    there.
    """
    reads, writes = (tuple(map(_within_buffer, x)) for x in (block.reads, block.writes))
    return replace(block, reads=reads, writes=writes)


def _within_buffer(r: BufferRegion) -> BufferRegion:
    sides = []
    for side, shape in zip(r.region, r.buffer.shape, strict=True):
        first, count, size = p.as_int(side.min), p.as_int(side.extent), p.as_int(shape)
        if first is not None and count is not None and size is not None:
            low, high = max(first, 0), min(first + count, size)
            side = e.Range(p.const(low, side.min.dtype), p.const(high - low, side.min.dtype))
        sides.append(side)
    return BufferRegion(r.buffer, tuple(sides))


def substituted_value(x: Any, values: Mapping[e.Var, Sum], known: Mapping[e.Var, Bounds]) -> Any:
    """An expression with variables replaced, everything in it simplified."""
    return simplified(x, Context(known, values))
