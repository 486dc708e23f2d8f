"""cache_inplace: a block that updates a buffer updates a copy, which is carried in and out.

for i in range(4):                          X_local = T.alloc_buffer(..., scope="local")
    with T.block("scale"):                  for i in range(4):
        X[v:v + 8] *= 2           ->            copy X -> X_local           block X_local
                                                with T.block("scale"):
                                                    X_local[v:v + 8] *= 2
                                                copy X_local -> X           block X_local
"""

from __future__ import annotations

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.nests import copy_nest, joined
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.legality.boxes import Side
from mlcnb.tir.schedule.legality.regions import box_of, known_bounds
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does(again=True)
def cache_inplace(
    state: State, block: Block, read_buffer_index: int | str | Buffer, storage_scope: str
) -> Change:
    """Let a block that reads and writes a buffer work on a copy of the part that it touches.

    The copy has the dtype of the buffer and the extents of the part.

    Args:
        state: the program.
        block: a block with the buffer among its reads and its writes.
        read_buffer_index: which of its inputs, by number, by name, or itself.
        storage_scope: the memory scope of the copy.

    Returns:
        The two blocks that copy, in and out. They stand right before and behind `block`, in the
        innermost of its loops.

    Raises:
        ScheduleError: the block does not write the buffer.
    """
    name = "cache_inplace"
    caching.refuse_scope(state, name, storage_scope, block)
    tree = state.tree
    old = caching.chosen_buffer(state, name, block, block.reads, read_buffer_index)
    if not any(r.buffer is old for r in block.writes):
        raise state.refusal(
            f"{name}: {name_of(block)} reads {old.name} and does not write it",
            block,
            hint="cache_read it",
        )
    caching.refuse_views(state, name, old, [block])
    place = tree.enclosing(block)
    known = known_bounds(tree, place)
    new = caching.cached(old, storage_scope)
    dtype = caching.index_dtype(tree, block)
    written, touched = _sides(state, block, old)
    around = tree.loops(block)
    into = copy_nest(old, new, [joined([a, b], known) for a, b in touched], known, dtype, around)
    out = copy_nest(new, old, written, known, dtype, around)
    edit = state.edit()
    caching.replace_block(edit, block, BufferSwap({old: new}, edit.forward))
    realize = tree.realize(block)
    edit.before(realize, into[0])
    edit.after(realize, out[0])
    edit.allocate(tree.scope(block), new)
    change = Change.of(edit, [into[1], out[1]])
    return change.noting(read_buffer_index=caching.index_of(block.reads, old))


def _sides(
    state: State, block: Block, buffer: Buffer
) -> tuple[list[Side], list[tuple[Side, Side]]]:
    """What one instance writes, and (read, written) for each dimension.

    What is carried out was carried in, so that elements which are not written keep their values.
    """
    tree = state.tree
    place = tree.enclosing(block)
    read, written = (
        box_of(tree, block, next(r for r in regions if r.buffer is buffer), place).sides
        for regions in (block.reads, block.writes)
    )
    return written, list(zip(read, written, strict=True))
