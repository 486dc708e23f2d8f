"""packed_matmul: a product with a matrix whose columns lie in blocks.

for i, j, k in …:                               for i_0, j_0 in T.parallel(…):
    C[i, j] += A[i, k] * W[j // 32, k, j % 32]      acc = 14 x 2 vectors, in registers
                                         ->         for k in range(K):
                                                        for i_1, j_1, lanes: acc += …
                                                    C[…] = acc + bias

The matrix comes from memory, a block of columns after the other: the tiles that use one ask for the
next one, each for a share of it.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.matmul import whole_vectors
from mlcnb.dlight.cpu.tiles import choose_tile, overlap, second_width
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.inject_prefetch import LINE
from mlcnb.tir.transform.inject_prefetch import SHARED as PREFETCH

#: elements of a matrix that stays in a core's own cache from one run to the next, at most
FEW = 32 << 10
#: tiles that read the same columns from which on they share the work of asking for the next ones
SHARING = 4
#: steps of the depth from one prefetch to the next, at least (in a loop of two steps all numbers of
#: both sides are loaded before they are multiplied, more than there are registers for), and at most
NEAR, FAR = 4, 64
#: rows of inner loops that are all in a tile, at most
MOST_BESIDE = 4


def packed_matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the block `matmul_packed`, with whatever elementwise blocks follow it."""
    anchor = survey.anchor
    if anchor is None or anchor.name != "matmul_packed" or anchor.kinds[-1:] != "R":
        return False
    if not survey.keeps_shape(anchor):
        return False
    lanes = target.lanes("float32")
    matrix = packed_matrix(anchor)
    block = None if matrix is None else as_int(matrix.shape[2])
    if matrix is None or block is None or block % lanes or len(anchor.kinds) < 3:
        return False
    for before in survey.before(anchor):
        elementwise(sch, before, target)
    after = survey.after(anchor)
    last = whole_vectors(sch, anchor, after, lanes) or fuse_epilogue(sch, anchor, after)
    *rows, columns, k = sch.get_loops(anchor.handle)
    vectors = min(block // lanes, -(-(anchor.extents[-2] or block) // lanes))
    along, beside = rows_to_cut(anchor.extents[:-2])
    length = anchor.extents[along]
    length = None if length is None else length * beside
    tile = choose_tile(length, None, target.vector_registers, vectors)
    j_0, j_1, lane = sch.split(columns, [None, vectors, lanes])
    i_0, i_1 = sch.split(rows[along], [None, max(1, tile.rows // beside)])
    overlap(sch, i_0, narrower=second_width(tile.rows, vectors) if beside == 1 else None)
    steps = asked_ahead(sch, matrix, i_0, k)
    whole, short = rows[:along], rows[along + 1 :]
    sch.reorder(*whole, j_0, i_0, *steps, i_1, *short, j_1, lane)
    depth = len(whole) + 2
    sch.reverse_compute_at(last, i_0)
    for loop in sch.get_loops(last)[depth:-1]:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(last)[-1])
    start = sch.decompose_reduction(anchor.handle, steps[0])
    for loop in (i_1, *short, j_1, *sch.get_loops(start)[depth:-1]):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(start)[-1])
    shares = [as_int(sch.get(loop).extent) for loop in (*whole, j_0)]
    few = None not in shares and math.prod(n or 1 for n in shares) < target.num_cores
    spread(sch, [*whole, j_0, *([i_0] if few else [])], anchor.work)
    return True


def rows_to_cut(extents: list[int | None]) -> tuple[int, int]:
    """Which loop of rows is cut into tiles, and how many rows the loops in it have, which are all
    in a tile: few, as where a sequence comes before a small batch."""
    along, beside = len(extents) - 1, 1
    while along > 0 and any(n != 1 for n in extents[:along]):
        count = beside * (extents[along] or MOST_BESIDE + 1)
        if count > MOST_BESIDE:
            break
        along, beside = along - 1, count
    return along, beside


def asked_ahead(sch: Schedule, matrix: Buffer, tile: Any, depth: Any) -> list[Any]:
    """The loops over the depth, in which the tiles ask for the next block of columns.

    They ask for all of it together, a line each after some steps: it comes from memory while the
    block that is there is used, not all at once when the first tile reads it.
    """
    tiles, steps = as_int(sch.get(tile).extent), as_int(sch.get(depth).extent)
    sizes = [as_int(d) or 0 for d in matrix.shape]
    if tiles is None or steps is None or tiles < SHARING or math.prod(sizes) < FEW:
        return [depth]
    apart = 1 << math.ceil(math.log2(max(2, LINE * tiles / sizes[2])))
    if not NEAR <= apart <= FAR or steps % apart:
        return [depth]
    sch.annotate(tile, PREFETCH, [matrix.data.name, steps * sizes[2], tiles])
    return sch.split(depth, [None, apart])


def packed_matrix(anchor: BlockInfo) -> Buffer | None:
    """What is read by columns: (blocks of columns, depth, columns in a block)."""
    column, own = anchor.node.iter_vars[-2].var, anchor.node.writes[0].buffer
    for region in anchor.node.reads:
        packed = len(region.buffer.shape) == 3 and region.buffer is not own
        if packed and any(n is column for side in region.region for n in walk(side.min)):
            return region.buffer
    return None
