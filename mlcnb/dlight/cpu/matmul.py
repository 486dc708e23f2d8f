"""matmul: a product of matrices as they lie, batched or not.

for b, i, j, k in …:                            for b, i_0, j_0 in T.parallel(…):
    C[b, i, j] += A[b, i, k] * B[b, k, j]           acc = 6 x 4 vectors, in registers
                                         ->         for k in range(K):
                                                        for i_1, j_1, lanes: acc += …
                                                    C[…] = acc

Rows of B are read as vectors, elements of A are broadcast. (Constant matrices are packed beforehand
and go to `packed_matmul`, which reads them from front to back.)
"""

from __future__ import annotations

from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.general import elementwise, spread
from mlcnb.dlight.cpu.tiles import choose_block
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


def matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the block `matmul` where the second operand's last index is the column."""
    anchor = survey.anchor
    if anchor is None or not is_row_major_matmul(anchor):
        return False
    after = survey.after(anchor)
    if not all(b.is_spatial and b.spatial() == anchor.spatial() for b in after):
        return False
    columns, lanes = anchor.extents[-2], target.lanes("float32")
    if columns is None or columns < lanes:
        return False
    for before in survey.before(anchor):
        elementwise(sch, before, target)
    last = fuse_epilogue(sch, anchor, after)
    tile(sch, anchor, last, columns, lanes, target)
    return True


def is_row_major_matmul(block: BlockInfo) -> bool:
    """Float32, one reduce axis (the last), the columns last in the result and in an operand."""
    if block.name != "matmul" or block.kinds[-3:] != "SSR" or "R" in block.kinds[:-1]:
        return False
    column, k = block.node.iter_vars[-2].var, block.node.iter_vars[-1].var
    out = block.node.writes[0]
    if out.buffer.dtype != "float32" or out.region[-1].min is not column:
        return False
    reads = [r for r in block.node.reads if r.buffer is not out.buffer and len(r.region) >= 2]
    return any(r.region[-1].min is column and r.region[-2].min is k for r in reads)


def tile(
    sch: Schedule, anchor: BlockInfo, last: object, columns: int, lanes: int, target: Target
) -> None:
    """Split, reorder, and keep the accumulators in registers."""
    *batch, row, column, k = sch.get_loops(anchor.handle)
    rows, width, _even = choose_block(anchor.extents[-3], columns, lanes, target.vector_registers)
    j_0, j_1, lane = sch.split(column, [None, width, lanes])
    i_0, i_1 = sch.split(row, [None, rows])
    sch.reorder(*batch, i_0, j_0, k, i_1, j_1, lane)
    depth = len(batch) + 2
    sch.reverse_compute_at(last, j_0)
    for loop in sch.get_loops(last)[depth:-1]:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(last)[-1])
    start = sch.decompose_reduction(anchor.handle, k)
    for loop in (i_1, j_1, *sch.get_loops(start)[depth:-1]):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(start)[-1])
    spread(sch, [*batch, i_0], anchor.work)
