"""read_at: under a loop, what is read of a buffer there is copied first, by one block.

for i_0 in range(16):                     for i_0 in range(16):
    for i_1 in range(8):                      with T.block("A_shared"):
        with T.block("B"):        ->              v0 = T.axis.spatial(16, i_0)
            ... A[i_0 * 8 + i_1]                  for ax0 in range(8):
                                                      A_shared[v0 * 8 + ax0] = A[v0 * 8 + ax0]
                                              for i_1 in range(8):
                                                  with T.block("B"):
                                                      ... A_shared[i_0 * 8 + i_1]

The block is marked `auto_copy`. Into shared memory, it copies for all threads of the block.
"""

from __future__ import annotations

from mlcnb.tir.schedule.edit.caching import cached, chosen_buffer, refuse_views, replace_block
from mlcnb.tir.schedule.edit.moving import body_items
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.edit.staging import copy_block, item_of, refuse_elsewhere, tile_of
from mlcnb.tir.schedule.legality.promises import read_buffers, written_buffers
from mlcnb.tir.schedule.legality.regions import boxes_of, known_bounds
from mlcnb.tir.schedule.primitives.compute_at import threads_that_share
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, For


@does(again=True)
def read_at(
    state: State, loop: For, block: Block, read_buffer_index: int, storage_scope: str
) -> Change:
    """Copy what one iteration of a loop reads of a buffer into a new one in `storage_scope`.

    It has the dtype of the buffer and the extents of what an iteration reads, cut at the buffer's
    end.

    Args:
        state: the program.
        loop: where to copy: before the first statement in it that reads the buffer.
        block: a block under the loop that reads the buffer.
        read_buffer_index: which of its inputs.
        storage_scope: the memory scope of the new buffer: local, shared, global, …

    Returns:
        The block that copies; all blocks under the loop read the copy.

    Raises:
        ScheduleError: the buffer is written under the loop, at or after the place of the copy.
    """
    tree = state.tree
    refuse_elsewhere(state, "read_at", loop, block)
    old = chosen_buffer(state, "read_at", block, block.reads, read_buffer_index)
    inside = tree.blocks_under(loop)
    readers = [b for b in inside if old in read_buffers(b)]
    refuse_views(state, "read_at", old, readers)
    first = min(item_of(state, loop, b) for b in readers)
    late = [b for b in inside if old in written_buffers(b) and item_of(state, loop, b) >= first]
    if late:
        raise state.refusal(
            f"read_at: {name_of(late[0])} writes {old.name} under {name_of(loop)}, at or after the "
            "place of the copy",
            late[0],
        )
    new = cached(old, storage_scope)
    also = threads_that_share(state, loop, new)
    boxes = boxes_of(tree, readers, "reads", old, loop, also)
    tile = tile_of(boxes, known_bounds(tree, loop))
    copy = copy_block(state, old, new, tile, loop, new.name)
    edit = state.edit()
    swap = BufferSwap({old: new}, edit.forward)
    for reader in readers:
        replace_block(edit, reader, swap)
    edit.before(body_items(loop)[first], copy)
    edit.allocate(tree.scope(loop), new)
    return Change.of(edit, copy.block)
