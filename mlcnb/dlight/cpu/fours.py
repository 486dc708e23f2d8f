"""fours: a matrix of bytes brought to blocks of columns, four rows together, filled up with zeros.

for k, d, j, l in …:                            for k in T.parallel(…):
    full[k, d, j, l] =                              for j:
        x[4 * k + d, 32 * j + l] or 0    ->             full = four rows of a block
for j, k, l, d in …:                                    for l_0:
    out[j, k, l, d] = full[k, d, j, l]                      out[…] = the four, lane by lane

What an instruction takes that sums four products of bytes, of sizes that are open: the ends are
asked for where a block's rows are copied, whole vectors at a time, and what brings four of them
together asks nothing. (Known sizes are filled up by `pad`, and go to `transpose`.)
"""

from __future__ import annotations

from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore


def fours(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a copy of bytes whose last block is four rows, and the block that fills them up,
    with the elementwise blocks before them."""
    if len(survey.blocks) < 2 or not all(b.is_spatial for b in survey.blocks):
        return False
    *before, filled, last = survey.blocks
    lanes = target.lanes("int32")
    if not is_fours(last, filled) or (last.extents[-2] or 1) % lanes:
        return False
    for block in before:
        sch.compute_inline(block.handle)
    *batch, j, k, column, row = sch.get_loops(last.handle)
    l_0, l_1 = sch.split(column, [None, lanes])
    sch.reorder(*batch, k, j, l_0, row, l_1)
    sch.compute_at(filled.handle, j)
    sch.set_scope(filled.handle, 0, "local")
    sch.unroll(row)
    sch.vectorize(l_1)
    sch.vectorize(sch.get_loops(filled.handle)[-1])
    spread(sch, [*batch, k], last.work)
    return True


def is_fours(block: BlockInfo, filled: BlockInfo) -> bool:
    """(…, blocks, fours, columns, 4) of bytes, copied from (…, fours, 4, blocks, columns)."""
    body, made = block.node.body, filled.node.writes[0].buffer
    if len(block.extents) < 4 or block.extents[-1] != 4 or block.extents[-2] is None:
        return False
    if not isinstance(body, BufferStore) or not isinstance(body.value, BufferLoad):
        return False
    *batch, j, k, column, row = (axis.var for axis in block.node.iter_vars)
    is_turned = body.value.indices == (*batch, k, row, j, column)
    return body.value.buffer is made and is_turned and body.buffer.dtype.bits == 8
