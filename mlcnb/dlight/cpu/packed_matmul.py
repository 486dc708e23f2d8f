"""packed_matmul: a product with a matrix whose columns lie in blocks.

for i, j, k in …:                               for i_0, j_0 in T.parallel(…):
    C[i, j] += A[i, k] * W[j // 32, k, j % 32]      acc = 14 x 2 vectors, in registers
                                         ->         for k in range(K):
                                                        for i_1, j_1, lanes: acc += …
                                                    C[…] = acc + bias
"""

from __future__ import annotations

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import choose_tile
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


def packed_matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the block `matmul_packed`, with whatever elementwise blocks follow it."""
    anchor = survey.anchor
    if anchor is None or anchor.name != "matmul_packed" or anchor.kinds[-1:] != "R":
        return False
    after = survey.after(anchor)
    if not all(b.is_spatial and b.spatial() == anchor.spatial() for b in after):
        return False
    lanes = target.lanes("float32")
    block = packed_block(anchor)
    if block is None or block % lanes or len(anchor.kinds) < 3:
        return False
    for before in survey.before(anchor):
        elementwise(sch, before, target)
    last = fuse_epilogue(sch, anchor, after)
    *rows, columns, k = sch.get_loops(anchor.handle)
    tile = choose_tile(anchor.extents[-3], None, target.vector_registers, block // lanes)
    j_0, j_1, lane = sch.split(columns, [None, block // lanes, lanes])
    i_0, i_1 = sch.split(rows[-1], [None, tile.rows])
    sch.reorder(*rows[:-1], j_0, i_0, k, i_1, j_1, lane)
    depth = len(rows) + 1
    sch.reverse_compute_at(last, i_0)
    for loop in sch.get_loops(last)[depth:-1]:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(last)[-1])
    start = sch.decompose_reduction(anchor.handle, k)
    for loop in (i_1, j_1, *sch.get_loops(start)[depth:-1]):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(start)[-1])
    spread(sch, [*rows[:-1], j_0], anchor.work)
    return True


def packed_block(anchor: BlockInfo) -> int | None:
    """Columns in a block of the packed matrix: the last dimension of what is read by columns."""
    column, own = anchor.node.iter_vars[-2].var, anchor.node.writes[0].buffer
    for region in anchor.node.reads:
        packed = len(region.buffer.shape) == 3 and region.buffer is not own
        if packed and any(n is column for side in region.region for n in walk(side.min)):
            return as_int(region.buffer.shape[2])
    return None
