"""interpolation: an image in another size, rows blended first, then columns picked and blended.

for h, w: rows[h, w] = x[top(h), w] * … + x[low(h), w] * …     for n_c_h_0 in T.parallel(…):
for h, w: y[h, w] = rows[h, left(w)] * … + …              ->       for h_1, w_0: rows[…]  # a vector
                                                                   for w_0:
                                                                       for h_1 in T.unroll(8): y[…]

Whole vectors of a row are blended; what is picked from lies in the first cache. Where it lies, and
what it weighs, depends on the column alone: LLVM finds that once for all rows that are written out.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.pool_rows import by_vectors
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule

#: rows of results that are made together
ROWS = 8


def interpolation(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to rows that a second block reads several times each, at places of their last axis."""
    if len(survey.blocks) < 2 or not all(_is_image(b) for b in survey.blocks):
        return False
    rows, columns, *after = survey.blocks
    if not _is_picked_from(rows, columns) or any(b.extents != columns.extents for b in after):
        return False
    last = survey.blocks[-1]
    for block in survey.blocks[1:-1]:
        sch.compute_inline(block.handle)
    n, c, h, w = sch.get_loops(last.handle)
    h_0, h_1 = sch.split(h, [None, ROWS])
    outer, lane = by_vectors(sch, w, target)
    sch.reorder(*outer, h_1, lane)
    sch.compute_at(rows.handle, h_0)
    sch.set_scope(rows.handle, 0, "local")
    by_vectors(sch, sch.get_loops(rows.handle)[-1], target)
    sch.unroll(h_1)
    spread(sch, [n, c, h_0], sum(b.work for b in survey.blocks))
    return True


def _is_image(block: BlockInfo) -> bool:
    """Four spatial axes of known sizes, the last along memory; float32."""
    (write, *more) = block.node.writes
    return (
        block.kinds == "SSSS"
        and not more
        and write.buffer.dtype == "float32"
        and write.region[-1].min is block.node.iter_vars[-1].var
    )


def _is_picked_from(rows: BlockInfo, columns: BlockInfo) -> bool:
    """True if each result is made of several elements of one of the rows."""
    made, axes = rows.node.writes[0].buffer, [axis.var for axis in columns.node.iter_vars]
    loads: list[Any] = [n for n in walk(columns.node.body) if isinstance(n, BufferLoad)]
    own = [n for n in loads if n.buffer is made]
    return len(own) > 1 and all(list(n.indices[:-1]) == axes[:-1] for n in own)
