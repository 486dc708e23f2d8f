"""reindex_cache_write: a block writes into a cache with a layout of its own, and a copy carries
it on.

for i, j in T.grid(16, 16):                     B_local = T.alloc_buffer((16, 16), scope="local")
    with T.block("B"):                          for i, j in T.grid(16, 16):
        B[v_i, v_j] = A[v_i, v_j] * 2     ->        with T.block("B"):
                                                        B_local[v_j, v_i] = A[v_i, v_j] * 2
                  lambda i, j: (j, i)           for ax0, ax1 in T.grid(16, 16):
                                                    with T.block("B_local"):
                                                        B[v0, v1] = B_local[v1, v0]

Axes of the block that do not index the buffer have no place in the copy.
"""

from __future__ import annotations

from typing import Any

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit.caching import chosen_buffer, index_of, refuse_scope
from mlcnb.tir.schedule.edit.reindexing import axes_map, reindexed
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


def reindex_cache_write(
    state: State,
    block: Block,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    index_map: Any,
) -> Change:
    """Let a block write into a cache laid out by a map of its axes, and copy that on.

    Args:
        state: the program.
        block: a block that writes one element of the buffer.
        write_buffer_index: which of its outputs, by number, by name, or itself.
        storage_scope: the memory scope of the cache: local, shared, global, …
        index_map: a function of the block's axes that gives the indices of the cache, or a
            tir.IndexMap.

    Returns:
        The block that copies, behind `block`.

    Raises:
        ScheduleError: the block writes the buffer at several places, or is not its only writer;
            or the map takes two elements to one place.
    """
    name = "reindex_cache_write"
    refuse_scope(state, name, storage_scope, block)
    old = chosen_buffer(state, name, block, block.writes, write_buffer_index)
    made = axes_map(state, name, block, index_map)
    label = f"{old.name}_{storage_scope.replace('.', '_')}"
    change = reindexed(state, name, block, old, True, label, storage_scope, made)
    number = index_of(block.writes, old)
    return change.noting(write_buffer_index=number, index_map=made)
