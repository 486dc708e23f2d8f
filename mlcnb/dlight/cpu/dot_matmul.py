"""dot_matmul: products of narrow values with a packed matrix, by sums of products.

for i, j, b, k, d in …:                          for j_0, i_0 in T.parallel(…):
    sums[i, j, b] += x[i, 4 * k + d] *     ->        acc = 14 x 2 vectors, in registers
                     w[j, k, b, d]                   for k: for i_1, vectors: vpdpbusd
for i, j in …:                                       for i_1, vectors, lanes:
    y[i, j] = saturate(round(sums * scale))              y[…] = saturate(round(acc * scale))

Bytes are summed in int32 in fours, bfloat16 in float32 in twos (vdpbf16ps). The last block of
columns may be partly empty: its sums are formed, but not stored.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.dot_products import use_instruction
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import choose_tile, overlap, second_width
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: the blocks that are such products
NAMES = ("qmatmul_packed", "matmul_pairs_packed")


def dot_matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one of the blocks NAMES, with the elementwise blocks that follow it."""
    anchor = survey.anchor
    if anchor is None or anchor.name not in NAMES or len(anchor.kinds) < 5:
        return False
    after, lanes, block = survey.after(anchor), target.lanes("int32"), anchor.extents[-3]
    if not after or not all(b.is_spatial and b.spatial() == after[0].spatial() for b in after):
        return False
    if block is None or block % lanes:
        return False
    for before in survey.before(anchor):
        elementwise(sch, before, target)
    for follower in after[:-1]:
        sch.compute_inline(follower.handle)
    last = after[-1].handle
    *batch, row, column = sch.get_loops(last)
    rows = _rows(anchor.extents[-5], block // lanes, target)
    j_0, j_1, lane = sch.split(column, [None, block // lanes, lanes])
    i_0, i_1 = sch.split(row, [None, rows])
    sch.reorder(*batch, j_0, i_0, i_1, j_1, lane)
    sch.set_scope(anchor.handle, 0, "local")
    sch.compute_at(anchor.handle, i_0, preserve_unit_loops=True)
    _sums(sch, anchor, len(batch) + 2, target)
    for loop in (i_1, j_1):
        sch.unroll(loop)
    sch.vectorize(lane)
    overlap(sch, i_0, narrower=[second_width(rows, block // lanes) or 1, 1])
    # open columns stay a loop: of one with the batch no remainder is known to be a place in a row
    spread(sch, batch if batch and anchor.extents[-4] is None else [*batch, j_0], anchor.work)
    return True


def _rows(count: int | None, vectors: int, target: Target) -> int:
    """Rows of a tile: if they can be many, rows that divide all rows, else tiles about even."""
    most = choose_tile(count, None, target.vector_registers, vectors).rows
    if count is None:
        return most
    dividing = next(r for r in range(most, 0, -1) if count % r == 0)
    return dividing if 2 * dividing > most else -(-count // -(-count // most))


def _sums(sch: Schedule, anchor: BlockInfo, depth: int, target: Target) -> None:
    """The accumulators of one tile: a reduction with the vectors inside."""
    *spatial, column, group, dot = sch.get_loops(anchor.handle)[depth:]
    vector, lane = sch.split(column, [None, target.lanes("int32")])
    sch.reorder(group, *spatial, vector, lane, dot)
    start: Any = sch.decompose_reduction(anchor.handle, group)
    *outer, inner = sch.get_loops(start)[depth:]
    for loop in (*outer, *spatial, vector):
        sch.unroll(loop)
    sch.vectorize(inner)
    use_instruction(sch, anchor, lane, "dot", target)
