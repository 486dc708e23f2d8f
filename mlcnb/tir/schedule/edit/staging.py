"""One block that copies a tile from buffer to buffer, its loops inside: what read_at and write_at
put under a loop.

    with T.block("A_shared"):                                   tile [i_0 * 8 : i_0 * 8 + 8]
        v0 = T.axis.spatial(16, i_0)
        T.block_attr({"auto_copy": True})
        for ax0 in range(8):
            A_shared[v0 * 8 + ax0] = A[v0 * 8 + ax0]

Tiles that reach past the buffer are cut: the last loop then runs over T.min(8, 30 - v0 * 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlcnb.arith.atoms import Extreme
from mlcnb.arith.extremes import at_most
from mlcnb.arith.reading import Context, larger, of, smaller
from mlcnb.arith.sum import ZERO, Bounds, Sum
from mlcnb.core.node import FrozenDict
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.tir.analysis.edges import ends_of
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.schedule.edit.moving import body_items
from mlcnb.tir.schedule.legality.boxes import Box
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IterVar, Stmt

ALWAYS = p.const(True)
#: first and last index of each dimension
Ends = list[tuple[Sum, Sum]]


def tile_of(boxes: Sequence[Box], known: Mapping[e.Var, Bounds]) -> Ends:
    """The smallest tile that holds all of the boxes, within the buffer."""
    ends: Ends = []
    for axis, extent in enumerate(boxes[0].buffer.shape):
        cut = [_cut(box, axis, known) for box in boxes]
        low, high = cut[0]
        for first, last in cut[1:]:
            low, high = smaller(low, first, known), larger(high, last, known)
        ends.append((_most(low, ZERO, known), _least(high, of(extent).shifted(-1), known)))
    return ends


def _least(x: Sum, y: Sum, known: Mapping[e.Var, Bounds]) -> Sum:
    return x if at_most(x, y, known) else smaller(x, y, known)


def _most(x: Sum, y: Sum, known: Mapping[e.Var, Bounds]) -> Sum:
    return x if at_most(y, x, known) else larger(x, y, known)


def _cut(box: Box, axis: int, known: Mapping[e.Var, Bounds]) -> tuple[Sum, Sum]:
    """The ends of one side, predicates taken into account."""
    side = box.sides[axis]
    low, high = side.low, side.high
    for other in side.lows[1:]:
        low = _most(low, other, known)
    for other in side.highs[1:]:
        high = _least(high, other, known)
    return low, high


def copy_block(
    state: State,
    source: Buffer,
    target: Buffer,
    tile: Ends,
    loop: For,
    name: str,
    predicate: e.PrimExpr = ALWAYS,
) -> BlockRealize:
    """The block that copies a tile given in terms of what is around it: that becomes its axes, in
    the order of the dimensions that it moves the tile along."""
    used: dict[e.Var, int] = {}
    for n, ends in enumerate(tile):
        for v in {v for end in ends for v in end.variables()}:
            used.setdefault(v, n)
    axes: list[IterVar] = []
    values: list[e.Var] = []
    renamed: dict[e.Var, Sum] = {}
    bounds: dict[e.Var, Bounds] = {}
    seen = [(outer, domain) for outer, domain in _seen_at(state, loop) if outer in used]
    for outer, domain in sorted(seen, key=lambda x: used[x[0]]):
        var = e.Var(f"v{len(axes)}", outer.dtype)
        axes.append(IterVar(domain, var))
        values.append(outer)
        renamed[outer] = Sum(0, {var: 1})
        bounds[var] = ends_of(domain)
    context = Context(bounds, renamed)
    kind = values[0].dtype if values else dtype("int32")
    sides, indices, inner = [], [], []
    for n, (low, high) in enumerate(tile):
        start = of(low.expr(kind), context)
        extent = _count(start, of(high.expr(kind), context)).expr(kind)
        var = e.Var(f"ax{n}", kind)
        inner.append((var, extent))
        sides.append(e.Range(start.expr(kind), extent))
        indices.append(start.plus(Sum(0, {var: 1})).expr(kind))
    at = tuple(indices)
    body: Stmt = BufferStore(target, BufferLoad(source, at), at)
    for var, extent in reversed(inner):
        body = For(var, p.const(0, kind), extent, ForKind.SERIAL, body)
    reads, writes = (BufferRegion(b, tuple(sides)) for b in (source, target))
    marks = FrozenDict({"auto_copy": True})
    block = Block(tuple(axes), (reads,), (writes,), name, body, annotations=marks)
    return BlockRealize(tuple(values), predicate, block)


def _seen_at(state: State, loop: For) -> list[tuple[e.Var, e.Range]]:
    """The loop variables and axes that can be seen under a loop, from the outside in."""
    found: list[tuple[e.Var, e.Range]] = []
    for n in reversed([loop, *state.tree.ancestors(loop)]):
        if isinstance(n, For):
            found.append((n.loop_var, e.Range(n.min, n.extent)))
        elif isinstance(n, Block):
            found.extend((axis.var, axis.dom) for axis in n.iter_vars)
    return found


def _count(low: Sum, high: Sum) -> Sum:
    """high - low + 1, with the difference inside of a minimum: T.min(8, 30 - v0 * 8)."""
    cut = high.only_atom
    if isinstance(cut, Extreme) and cut.is_min:
        return Sum(0, {Extreme(True, _count(low, cut.a), _count(low, cut.b)): 1})
    return high.minus(low).shifted(1)


def refuse_elsewhere(state: State, name: str, loop: For, block: Block) -> None:
    """The block must stand under the loop, in the same scope."""
    tree = state.tree
    if tree.scope(loop) is not tree.scope(block) or not tree.inside(block, loop):
        raise state.refusal(f"{name}: {name_of(block)} is not under {name_of(loop)}", loop)


def item_of(state: State, loop: For, block: Block) -> int:
    """The number of the statement in the body of a loop that a block stands in."""
    items = body_items(loop)
    return items.index(state.tree.child_towards(loop, state.tree.realize(block)))
