"""reindex_cache_read, reindex_cache_write: a cache with a layout of its own, which a copy fills, or
carries on.

for i, j in T.grid(16, 16):                     A_local = T.alloc_buffer((16, 16), scope="local")
    with T.block("B"):                          for ax0, ax1 in T.grid(16, 16):
        B[v_i, v_j] = A[v_i, v_j] * 2     ->        with T.block("A_local"):
                                                        A_local[v1, v0] = A[v0, v1]
                  lambda i, j: (j, i)           for i, j in T.grid(16, 16):
                                                    with T.block("B"):
                                                        B[v_i, v_j] = A_local[v_j, v_i] * 2

Axes of the block that do not index the buffer have no place in the copy.
"""

from __future__ import annotations

from typing import Any

from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit.caching import chosen_buffer, index_of, refuse_scope
from mlcnb.tir.schedule.edit.reindexing import axes_map, reindexed
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does()
def reindex_cache_read(
    state: State,
    block: Block,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    index_map: Any,
) -> Change:
    """Copy what a block reads of a buffer into a cache laid out by a map of the block's axes.

    The cache has the dtype of the buffer and the shape of what the map gives.

    Args:
        state: the program.
        block: a block that reads one element of the buffer.
        read_buffer_index: which of its inputs, by number, by name, or itself.
        storage_scope: the memory scope of the cache: local, shared, global, …
        index_map: a function of the block's axes that gives the indices of the cache, or a
            tir.IndexMap.

    Returns:
        The block that copies, before `block`.

    Raises:
        ScheduleError: the block reads the buffer at several places, or outside of it;
            or the map takes two elements to one place.
    """
    return _cached(state, block, False, read_buffer_index, storage_scope, index_map)


@does()
def reindex_cache_write(
    state: State,
    block: Block,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    index_map: Any,
) -> Change:
    """Let a block write into a cache laid out by a map of its axes, and copy that on.

    The cache has the dtype of the buffer and the shape of what the map gives.

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
    return _cached(state, block, True, write_buffer_index, storage_scope, index_map)


def _cached(
    state: State, block: Block, writes: bool, which: int | str | Buffer, scope: str, index_map: Any
) -> Change:
    kind, regions = ("write", block.writes) if writes else ("read", block.reads)
    name = f"reindex_cache_{kind}"
    refuse_scope(state, name, scope, block)
    old = chosen_buffer(state, name, block, regions, which)
    made = axes_map(state, name, block, index_map)
    label = f"{old.name}_{scope.replace('.', '_')}"
    change = reindexed(state, name, block, old, writes, label, scope, made)
    return change.noting(**{f"{kind}_buffer_index": index_of(regions, old), "index_map": made})
