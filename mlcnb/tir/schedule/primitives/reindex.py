"""reindex: what a block reads or writes of a buffer gets a buffer laid out by the block's axes.

with T.block("conv"):                              A_reindex = T.alloc_buffer((16, 3))
    ... A[v_i + v_k] ...             ->            with T.block("A_reindex"):
                                                       A_reindex[v0, v1] = A[v0 + v1]
                                                   with T.block("conv"):
                                                       ... A_reindex[v_i, v_k] ...

It turns a convolution into a matrix product (im2col).
"""

from __future__ import annotations

from typing import Any

from mlcnb.tir.schedule.edit.caching import named_buffer, place_of
from mlcnb.tir.schedule.edit.reindexing import reindexed
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


def _buffers(site: Site) -> list[tuple[str, int]]:
    reads, writes = site.block.reads, site.block.writes
    return [("read", n) for n in range(len(reads))] + [("write", n) for n in range(len(writes))]


@does(tries={"buffer": _buffers})
def reindex(state: State, block: Block, buffer: Any) -> Change:
    """Put a copy between a block and a buffer, indexed by the axes that the block indexes it with.

    It has the dtype of the buffer and the extents of those axes.

    Args:
        state: the program.
        block: a block that accesses the buffer with one tuple of indices.
        buffer: ("read", n) or ("write", n), its name, or the Buffer.

    Returns:
        The block that copies: before `block` for an input, behind it for an output.

    Raises:
        ScheduleError: the accesses differ, leave the buffer (guarded padding), or others write it
            too.
    """
    old = named_buffer(state, "reindex", block, buffer)
    is_write = any(r.buffer is old for r in block.writes)
    label = f"{old.name}_reindex"
    change = reindexed(state, "reindex", block, old, is_write, label, "global")
    return change.noting(buffer=place_of(block, old, buffer))
