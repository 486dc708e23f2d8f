"""rolling_buffer: tiles that overlap keep what they share, in a buffer as long as one tile.

                                                B = T.alloc_buffer((6,))
for i_0 in range(2):                            for i_0 in range(2):
    for ax0 in range(6):                            for ax0 in range(6):
        with T.block("B"):                              with T.block("B"):
            v = T.axis.spatial(10, i_0 * 4 + ax0)           v = T.axis.opaque(10, i_0 * 4 + ax0)
                                        ->                  T.where(i_0 < 1 or 2 <= ax0)
            B[v] = A[v] * 2.0                               B[v % 6] = A[v] * 2.0
    for i_1 in range(4):                            for i_1 in range(4):
        with T.block("C"):                              with T.block("C"):
            C[w] = B[w] + B[w + 2]                          C[w] = B[w % 6] + B[(w + 2) % 6]

Elements that the tile before has made are not made again: they stand where they stood, and new ones
overwrite those that no later tile reads. The loop over the tiles must stay serial from then on:
the axes that index the rolled dimension become opaque.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.reading import of
from mlcnb.arith.sum import Quotient, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.schedule.edit.caching import chosen_buffer, refuse_uncovered, refuse_views
from mlcnb.tir.schedule.edit.moving import refuse_neither
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.legality.boxes import Box
from mlcnb.tir.schedule.legality.dependence import why_inputs_change
from mlcnb.tir.schedule.legality.promises import is_output_block
from mlcnb.tir.schedule.legality.regions import bindings, box_of
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For, ForKind, IterType, Stmt

NAME = "rolling_buffer"


@dataclass
class _Overlap:
    """A dimension along which the tile of a later iteration of `loop` overlaps the one before."""

    axis: int
    loop: For
    extent: int
    shared: int
    inner: Sum


@does()
def rolling_buffer(state: State, block: Block, write_buffer_index: int) -> Change:
    """Make a buffer as long as one tile along the outermost dimension in which tiles overlap.

    The buffer keeps its dtype; along the rolled dimension it holds as much as one tile reads.

    Args:
        state: the program.
        block: a complete or reduction block that stands under a loop of its consumers (after
            `compute_at`), and makes there what one iteration needs.
        write_buffer_index: which of its outputs.

    Raises:
        ScheduleError: producer and consumers share no loop, tiles do not overlap, or what a tile
            keeps would not be what it would make.
    """
    buffer = chosen_buffer(state, NAME, block, block.writes, write_buffer_index)
    readers = state.tree.info(state.tree.scope(block)).readers.get(buffer, [])
    readers = [b for b in readers if b is not block]
    place = _place(state, block, buffer, readers)
    _refuse(state, block, buffer, readers)
    overlaps = _overlaps(state, block, buffer, place)
    rolled = overlaps[0]
    shape = list(buffer.shape)
    shape[rolled.axis] = p.const(rolled.extent, shape[rolled.axis].dtype)
    new = replace(buffer, shape=tuple(shape))
    edit = state.edit()
    swap = _swap(buffer, new, rolled, edit.forward)
    for user in (block, *readers):
        changed = _ordered(swap.stmt(user), new, rolled.axis)
        edit.put(user, changed)
        edit.became(user, changed)
    realize = state.tree.realize(block)
    fresh = [_is_new(x) for x in overlaps]
    edit.update(realize, predicate=p.all_of(realize.predicate, *fresh))
    scope = state.tree.scope(block)
    edit.update(scope, alloc_buffers=tuple(new if b is buffer else b for b in scope.alloc_buffers))
    return Change.of(edit)


def _place(state: State, block: Block, buffer: Buffer, readers: list[Block]) -> For:
    """The innermost loop that holds the block and all readers."""
    tree = state.tree
    scope = tree.scope(block)
    if is_output_block(tree, block, scope) or buffer not in scope.alloc_buffers:
        raise state.refusal(
            f"{NAME}: {name_of(block)} writes {buffer.name}, an output of {name_of(scope)}", block
        )
    if not readers:
        raise state.refusal(f"{NAME}: nothing reads {buffer.name}", block)
    place = tree.common_ancestor([block, *readers])
    if not isinstance(place, For):
        raise state.refusal(
            f"{NAME}: no loop holds {name_of(block)} and {names_of(readers)}, which read "
            f"{buffer.name}",
            block,
            hint=f"compute_at {name_of(block)} under a loop of its consumer first",
        )
    return place


def _refuse(state: State, block: Block, buffer: Buffer, readers: list[Block]) -> None:
    refuse_views(state, NAME, buffer, [block, *readers])
    refuse_neither(state, NAME, block)
    reason = why_inputs_change(state.tree, block)
    state.refuse_for(reason, f"{NAME}: what {name_of(block)} has made cannot be kept", block)
    refuse_uncovered(state, NAME, readers, buffer, block)


def _overlaps(state: State, block: Block, buffer: Buffer, place: For) -> list[_Overlap]:
    """The dimensions in which tiles overlap, the one of the outermost loop first."""
    tree = state.tree
    region = next(r for r in block.writes if r.buffer is buffer)
    box = box_of(tree, block, region, place)
    outer = (*tree.loops(place), place)
    found = []
    for axis in range(buffer.ndim):
        overlap = _overlap(state, block, region, box, axis, outer)
        if overlap is not None:
            found.append(overlap)
    if not found:
        raise state.refusal(
            f"{NAME}: the parts of {buffer.name} that {name_of(block)} writes in the iterations "
            f"of {name_of(place)} and the loops around it do not overlap",
            block,
        )
    loops = [x.loop for x in found]
    twice = [x for n, x in enumerate(loops) if x in loops[:n]]
    if twice:
        raise state.refusal(
            f"{NAME}: tiles of {buffer.name} move in two dimensions at once with "
            f"{name_of(twice[0])}",
            twice[0],
        )
    for x in loops:
        if p.as_int(x.min) != 0 or x.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise state.refusal(
                f"{NAME}: {name_of(x)} is no serial loop from 0: tiles must come one after the "
                "other",
                x,
            )
    return sorted(found, key=lambda x: outer.index(x.loop))


def _overlap(
    state: State, block: Block, region: BufferRegion, box: Box, axis: int, outer: Sequence[For]
) -> _Overlap | None:
    """How tiles follow each other along one dimension; None where they do not overlap."""
    low = box.sides[axis].low
    moving = [x for x in outer if low.uses({x.loop_var}) and p.as_int(x.extent) != 1]
    if not moving:
        return None
    extent = box.sides[axis].high.minus(low).shifted(1).value
    step = _step(low, moving[0]) if len(moving) == 1 else None
    index = region.region[axis]
    if extent is None or step is None or p.as_int(index.extent) != 1:
        raise state.refusal(
            f"{NAME}: dimension {axis} of what {name_of(block)} writes is no tile of fixed size "
            "that moves with one loop",
            block,
        )
    if extent <= step:
        return None
    inner = of(index.min, bindings(state.tree, block)).minus(low)
    return _Overlap(axis, moving[0], extent, extent - step, inner)


def _step(low: Sum, loop: For) -> int | None:
    """How far a tile moves at most from one iteration to the next, where it is always forward."""
    moving = [(t, c) for t, c in low.terms.items() if _is_moved(t, loop)]
    if len(moving) != 1 or moving[0][1] <= 0:
        return None
    atom, step = moving[0]
    if isinstance(atom, e.Var):
        return step
    if isinstance(atom, Quotient):
        inner = _step(atom.inner, loop)
        return None if inner is None else step * -(-inner // atom.by)
    return None


def _is_moved(atom: Any, loop: For) -> bool:
    return atom is loop.loop_var if isinstance(atom, e.Var) else loop.loop_var in atom.variables()


def _is_new(x: _Overlap) -> e.PrimExpr:
    """The element was not made by the tile before: the first tile makes all of its own."""
    kind = x.loop.loop_var.dtype
    first = p.less(x.loop.loop_var, p.const(1, kind))
    return p.logical_or(first, p.less_equal(p.const(x.shared, kind), x.inner.expr(kind)))


def _swap(old: Buffer, new: Buffer, rolled: _Overlap, forward: dict[Stmt, Stmt]) -> BufferSwap:
    """Indices of the rolled dimension counted around."""

    def around(indices: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
        given = list(indices)
        given[rolled.axis] = p.floormod(given[rolled.axis], rolled.extent)
        return tuple(given)

    def box(r: BufferRegion, buffer: Buffer) -> BufferRegion:
        sides = list(r.region)
        side = sides[rolled.axis]
        if p.as_int(side.extent) == 1:
            sides[rolled.axis] = replace(side, min=p.floormod(side.min, rolled.extent))
        else:
            kind = side.min.dtype
            sides[rolled.axis] = e.Range(p.const(0, kind), p.const(rolled.extent, kind))
        return BufferRegion(buffer, tuple(sides))

    return BufferSwap({old: new}, forward, around, box)


def _ordered(block: Block, buffer: Buffer, axis: int) -> Block:
    """The block, with the spatial axes that index the rolled dimension as opaque ones."""
    used: set[e.Var] = set()
    for r in (*block.reads, *block.writes):
        if r.buffer is buffer:
            used |= of(r.region[axis].min).variables()
    axes = tuple(
        replace(v, iter_type=IterType.OPAQUE)
        if v.var in used and v.iter_type is IterType.SPATIAL
        else v
        for v in block.iter_vars
    )
    return replace(block, iter_vars=axes)
