"""write_at: under a loop, blocks write into a new buffer, and one block copies it out.

for i_0 in range(16):                     for i_0 in range(16):
    for i_1 in range(8):                      for i_1 in range(8):
        with T.block("B"):        ->              with T.block("B"):
            B[i_0 * 8 + i_1] = ...                    B_local[i_0 * 8 + i_1] = ...
                                              with T.block("B_local"):
                                                  v0 = T.axis.spatial(16, i_0)
                                                  for ax0 in range(8):
                                                      B[v0 * 8 + ax0] = B_local[v0 * 8 + ax0]

The block is marked `auto_copy`. Under a loop of the reduction it waits for the last iteration
(`T.where`). A thread copies what it wrote itself, so that nobody waits for others. Refused where
an iteration writes no full box: the copy would carry elements that were never written.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.arith.atoms import structure_key, variables_of
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.kernels import BLOCK_AXES, IN_BLOCK_AXES
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit.caching import (
    cached,
    chosen_buffer,
    index_dtype,
    refuse_gaps,
    refuse_views,
    replace_block,
)
from mlcnb.tir.schedule.edit.finishing import has_last, in_the_last, reducing, waited_for
from mlcnb.tir.schedule.edit.moving import body_items
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.edit.staging import copy_block, item_of, refuse_elsewhere, tile_of
from mlcnb.tir.schedule.legality.boxes import Box, conjuncts, inside
from mlcnb.tir.schedule.legality.dependence import is_covered
from mlcnb.tir.schedule.legality.promises import read_buffers, why_in_parts, written_buffers
from mlcnb.tir.schedule.legality.regions import boxes_of, known_bounds, loops_below
from mlcnb.tir.schedule.primitives.compute_at import threads_that_share
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, names_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For

NAME = "write_at"


@does(again=True)
def write_at(
    state: State, loop: For, block: Block, write_buffer_index: int, storage_scope: str
) -> Change:
    """Let what is written of a buffer in one iteration of a loop go through a new one.

    It has the dtype of the buffer and the extents of what an iteration writes, cut at the buffer's
    end.

    Args:
        state: the program.
        loop: where to copy: behind the last statement in it that writes the buffer.
        block: a block under the loop that writes the buffer.
        write_buffer_index: which of its outputs.
        storage_scope: the memory scope of the new buffer: local, shared, global, …

    Returns:
        The block that copies; blocks under the loop up to it write, and read, the new buffer.

    Raises:
        ScheduleError: an iteration does not write a full box, or updates what was there before.
    """
    tree = state.tree
    refuse_elsewhere(state, NAME, loop, block)
    old = chosen_buffer(state, NAME, block, block.writes, write_buffer_index)
    under = tree.blocks_under(loop)
    writers = [b for b in under if old in written_buffers(b)]
    last = max(item_of(state, loop, b) for b in writers)
    readers = [b for b in under if old in read_buffers(b) and item_of(state, loop, b) <= last]
    users = list(dict.fromkeys([*writers, *readers]))
    refuse_views(state, NAME, old, users)
    _refuse_threads(state, loop, old, writers, storage_scope)
    if state.checks:
        _refuse(state, loop, old, writers, readers)
    waited = waited_for(tree, writers, [*tree.loops(loop), loop])
    new = cached(old, storage_scope)
    boxes = boxes_of(tree, writers, "writes", old, loop, waited)
    if _has_holes(state, loop, boxes):
        threads = threads_that_share(state, loop, new)
        boxes = boxes_of(tree, writers, "writes", old, loop, [*threads, *waited])
        _refuse_holes(state, loop, old, boxes)
    tile = tile_of(boxes, known_bounds(tree, loop))
    finished = in_the_last(waited, index_dtype(tree, block))
    condition = p.all_of(_condition(state, loop, old, writers, waited), *finished)
    copy = copy_block(state, new, old, tile, loop, new.name, condition)
    edit = state.edit()
    swap = BufferSwap({old: new}, edit.forward)
    for user in users:
        replace_block(edit, user, swap)
    edit.after(body_items(loop)[last], copy)
    edit.allocate(tree.scope(loop), new)
    return Change.of(edit, copy.block)


def _refuse(
    state: State, loop: For, old: Buffer, writers: list[Block], readers: list[Block]
) -> None:
    tree = state.tree
    around = [*tree.loops(loop), loop]
    _refuse_others(state, loop, old, writers, readers)
    for writer in writers:
        running = [x for x in reducing(tree, writer, around) if not has_last(tree, writer, x)]
        if running:
            raise state.refusal(
                f"{NAME}: {name_of(writer)} updates {old.name} in each iteration of "
                f"{name_of(running[0])}, which is not under {name_of(loop)}",
                loop,
                hint=f"choose a loop outside of {name_of(running[0])}",
            )
        state.refuse_for(
            why_in_parts(tree, writer),
            f"{NAME}: {name_of(writer)} has not finished {old.name} when the copy is made",
            writer,
            hint=f"choose a loop outside of {name_of(tree.scope(writer))}",
        )
        refuse_gaps(state, NAME, writer, old)
    for reader in readers:
        if not is_covered(tree, reader, old, tree.blocks_under(loop)):
            raise state.refusal(
                f"{NAME}: {name_of(reader)} may read elements of {old.name} that were written "
                f"before this iteration of {name_of(loop)}",
                reader,
            )


def _refuse_threads(state: State, loop: For, old: Buffer, writers: list[Block], scope: str) -> None:
    """Refuse memory that ends with the threads that write it, before the copy reads it: right in
    one thread, and on no GPU.
    """
    for writer in writers:
        for inner in loops_below(state.tree, writer, loop):
            axis = inner.thread_binding or ""
            if (axis in IN_BLOCK_AXES and scope == "local") or (
                axis in BLOCK_AXES and scope != "global"
            ):
                whose = "thread" if axis in IN_BLOCK_AXES else "block"
                raise state.refusal(
                    f"{NAME}: {name_of(writer)} writes {old.name} in {name_of(inner)}, where each "
                    f"{whose} has {scope} memory of its own, and the copy stands outside of it",
                    loop,
                    hint=f"choose a loop inside of {name_of(inner)}, or another scope",
                )


def _refuse_others(
    state: State, loop: For, old: Buffer, writers: list[Block], readers: list[Block]
) -> None:
    """Refuse if somebody else touches the buffer while the copy waits for the last iteration."""
    tree = state.tree
    waited = waited_for(tree, writers, [*tree.loops(loop), loop])
    for block in tree.blocks_under(waited[0]) if waited else ():
        if old in (*read_buffers(block), *written_buffers(block)) and block not in (
            *writers,
            *readers,
        ):
            raise state.refusal(
                f"{NAME}: {name_of(block)} touches {old.name} in {name_of(waited[0])} too, over "
                f"which {names_of(writers)} updates it",
                block,
                hint=f"choose a loop outside of {name_of(waited[0])}",
            )


def _condition(
    state: State, loop: For, old: Buffer, writers: list[Block], waited: list[For]
) -> e.PrimExpr:
    """When an iteration writes at all: the parts of the predicates that no loop inside decides,
    nor one that is waited for.
    """
    tree = state.tree
    found: list[dict[object, e.PrimExpr]] = []
    for writer in writers:
        inside = {x.loop_var for x in (*loops_below(tree, writer, loop), *waited)}
        parts = conjuncts(tree.realize(writer).predicate)
        outer = [c for c in parts if not variables_of(c) & inside]
        found.append({structure_key(c): c for c in outer})
    if any(x.keys() != found[0].keys() for x in found):
        raise state.refusal(
            f"{NAME}: {names_of(writers)} write {old.name} under different conditions", loop
        )
    return p.all_of(*found[0].values())


def _has_holes(state: State, loop: For, boxes: Sequence[Box]) -> bool:
    known = known_bounds(state.tree, loop)
    return not any(w.exact and all(inside(b, w, known) for b in boxes) for w in boxes)


def _refuse_holes(state: State, loop: For, old: Buffer, boxes: Sequence[Box]) -> None:
    if _has_holes(state, loop, boxes):
        raise state.refusal(
            f"{NAME}: what an iteration of {name_of(loop)} writes of {old.name} is no full box, "
            "and a copy would overwrite the rest",
            loop,
        )
