"""transpose: copies whose source lies along another axis than their result, in tiles of 32 x 32.

for i, j: B[i, j] = A[j, i]          tile in shared memory, 32 rows of 33 elements
                              ->     tile[x, y] = A[…]      threadIdx.x along the rows of A
                                     B[…] = tile[…]         threadIdx.x along the rows of B

Both ways neighbouring threads touch neighbouring elements; rows of 33 put a column of the tile into
32 different banks.
"""

from __future__ import annotations

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.transpose import find_runs
from mlcnb.dlight.gpu.axes import fused, over_axes
from mlcnb.dlight.gpu.threads import most_threads
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: a side of a tile, and rows of it that are moved at once
TILE, ROWS = 32, 8


def transpose(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one elementwise block with one load, across the rows of the result."""
    for block in survey.blocks[:-1]:
        if not block.is_spatial or len(sch.get_consumers(block.handle)) != 1:
            return no(f"{block.name} is more than one step of a copy")
        sch.compute_inline(block.handle)
    blocks = Survey.of(sch).blocks
    if len(blocks) != 1 or not _is_copy(blocks[0]):
        return no("no copy of one array, all sizes known")
    if most_threads(target) < TILE * ROWS:
        return no(f"blocks of {TILE * ROWS} threads, and a GPU of this target has fewer")
    (block,) = blocks
    runs = find_runs(block, TILE)
    if runs is None:
        return no("rows stay rows, or most of its tiles would be empty")
    first, last = runs
    end = len(block.extents)
    groups = [[*range(first)], [*range(first, last)], [*range(last, end)]]
    tile = over_axes(sch, block, ("read", 0), groups)
    sch.transform_block_layout(block.handle, fused(block, range(end), groups))
    outer, along, across = sch.get_loops(block.handle)
    along_0, along_1, y = sch.split(along, [None, TILE // ROWS, ROWS])
    across_0, x = sch.split(across, [None, TILE])
    sch.reorder(outer, along_0, across_0, along_1, y, x)
    sch.set_scope(tile, 0, "shared")
    sch.compute_at(tile, across_0)
    sch.storage_align(tile, 0, -2, TILE, 1)
    tile_x, rest = sch.get_loops(tile)[-2:]
    rest, tile_y = sch.split(rest, [None, ROWS])
    sch.reorder(rest, tile_y, tile_x)
    for loop, place in ((tile_y, "threadIdx.y"), (tile_x, "threadIdx.x"), (y, "threadIdx.y"),
                        (x, "threadIdx.x"), (across_0, "blockIdx.x"), (along_0, "blockIdx.y"),
                        (outer, "blockIdx.z")):  # fmt: skip
        sch.bind(loop, place)
    return True


def _is_copy(block: BlockInfo) -> bool:
    """One load and one store, whose axes are the indices of the result, all sizes known."""
    node = block.node
    loads = [n for n in walk(node.body) if isinstance(n, BufferLoad)]
    if len(loads) != 1 or not isinstance(node.body, BufferStore) or None in block.extents:
        return False
    return block.is_spatial and list(node.body.indices) == [axis.var for axis in node.iter_vars]
