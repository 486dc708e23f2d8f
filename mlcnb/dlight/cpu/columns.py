"""columns: sums over leading or middle axes; results lie side by side, and so do their operands.

for j, i: y[j] += x[i, j]                    for j_0 in T.parallel(…):
for j: z[j] = y[j] / n                           for j_1, lane: acc[…] = 0      # 16 vectors
                                     ->          for i in …:
                                                     for j_1, lane: acc[…] += x[i, …]
                                                 for j_1, lane: z[…] = acc[…] / n

As many results are kept in registers as there is room for, so that each row is read once, in pieces
as long as can be.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.blocked_window import fuse_epilogue
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import overlap
from mlcnb.dlight.decide import decide
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: pieces that a few threads share evenly
PIECES = 8
#: vectors of results at a time, of rows of open length
OPEN_VECTORS = 4


def columns(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one reduction whose last spatial axis runs along memory, in all that it reads."""
    anchor = survey.anchor
    others = [b for b in survey.blocks if b is not anchor]
    if anchor is None or not all(b.is_spatial for b in others):
        return False
    after = survey.after(anchor)
    if not is_along_columns(anchor, target) or any(b.extents != anchor.spatial() for b in after):
        return False
    for block in survey.before(anchor):
        sch.compute_inline(block.handle)
    down_columns(sch, anchor, fuse_epilogue(sch, anchor, after), target)
    return True


def one_down_columns(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """Schedule one such reduction among others; False: it is none."""
    if not is_along_columns(block, target):
        return False
    down_columns(sch, block, fuse_epilogue(sch, block, []), target)
    return True


def down_columns(sch: Schedule, anchor: BlockInfo, last: Any, target: Target) -> None:
    """The loops of a reduction and of the block that stores its results."""
    lanes = target.lanes(str(anchor.node.writes[0].buffer.dtype))
    count = len(anchor.spatial())
    *outer, j = sch.get_loops(anchor.handle)[:count]
    reduce = sch.get_loops(anchor.handle)[count:]
    own = vectors(anchor, lanes, target)
    width = decide("vectors", (own, 16, 8, 4, 2, 1)) * lanes
    j_0, j_1 = sch.split(j, [None, width])
    overlap(sch, j_0)
    sch.reorder(*outer, j_0, *reduce, j_1)
    sch.reverse_compute_at(last, j_0)
    start = sch.decompose_reduction(anchor.handle, reduce[0])
    for block in (start, anchor.handle, last):
        written_out(sch, block, lanes)
    shared = [*outer, j_0]
    if anchor.spatial()[-1] is None:  # its tiles overlap: it joins no other loop
        shared = outer if any(e != 1 for e in anchor.spatial()[:-1]) else [j_0]
    spread(sch, shared, anchor.work)


def vectors(anchor: BlockInfo, lanes: int, target: Target) -> int:
    """Vectors of results at a time: half of the registers, but fewer if that makes too few pieces.

    Pieces of one row that fill their vectors come first.
    """
    if anchor.spatial()[-1] is None:
        return OPEN_VECTORS
    *outer, length = (e or 1 for e in anchor.spatial())
    row = -(-length // lanes)
    for count in (target.vector_registers // 2, 8, 4, 2):
        pieces = math.prod(outer) * -(-row // count)
        if row % count == 0 and pieces >= PIECES:
            return count
    return min(row, 4)


def written_out(sch: Schedule, block: Any, lanes: int) -> None:
    """The innermost loop as vectors, one after the other."""
    each, lane = sch.split(sch.get_loops(block)[-1], [None, lanes])
    sch.unroll(each)
    sch.vectorize(lane)


def is_along_columns(block: BlockInfo, target: Target) -> bool:
    """Spatial axes first; the last of them is the last index of all that has it, and is long."""
    kinds = block.kinds
    last = len(block.spatial()) - 1
    if "R" not in kinds or last < 0 or "S" in kinds.lstrip("S"):
        return False
    if len(block.node.writes) != 1:
        return False  # argmax: two results that go together
    (write,) = block.node.writes
    var, length = block.node.iter_vars[last].var, block.extents[last]
    reads = [r for r in block.node.reads if r.buffer is not write.buffer and r.region]
    inside = [r for r in reads if any(n is var for axis in r.region for n in walk(axis.min))]
    return (
        bool(write.region)
        and write.region[-1].min is var
        and (length is None or length >= target.lanes(str(write.buffer.dtype)))
        and bool(inside)
        and all(r.region[-1].min is var for r in inside)
    )
