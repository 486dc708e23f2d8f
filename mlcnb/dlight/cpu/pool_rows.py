"""pool_rows: windows on the plain layout, combined down the rows first, then along them.

for h, w, rh: tall[h, w] = max(x[h * 2 + rh - 1, w])     for n_c_h_0 in T.parallel(…):
for h, w: pad[h, w] = tall[h, w - 1] if … else -inf          for h_1, w_0: tall[…]    # a vector
for h, w, rw: y[h, w] = max(pad[h, w * 2 + rw])      ->      for h_1, w_0: pad[…]
                                                             for h_1, w_0: y[…]

Each window is combined in a register, which is written when it is whole: the last vector of a row
is under a mask, and what memory gives back under it waits for what went there.

As many rows of results at a time as leave what they need of `tall`, with what it is made of and
what becomes of it, in the first cache: what has been written is not read at once (a load that
overlaps two stores waits until both are in the cache), and an image whose rows are all made
together has no rest.
The padding above and below is not written: the test is made where the rows are read.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.blocked_window import WINDOW, fuse_epilogue
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import overlap, part_used
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.loop_partition import HINT

#: rows of results that are made together
ROWS = (32, 16, 8, 4, 2)
#: lanes of vectors for rows of open length that are shorter than half a whole one
NARROW = 4
#: the part of the first cache that they may take of `tall`: its operand and its results are there
PART = 8


def pool_rows(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to two reductions over small windows, of rows and then of columns."""
    reductions = [b for b in survey.blocks if b.is_reduction]
    if len(reductions) != 2 or not all(_is_window(b, target) for b in reductions):
        return False
    tall, anchor = reductions
    columns = survey.blocks[survey.blocks.index(tall) + 1 : survey.blocks.index(anchor)]
    if len(columns) > 1 or not all(b.is_spatial for b in survey.blocks if b not in reductions):
        return False
    if any(b.spatial() != anchor.spatial() for b in survey.after(anchor)):
        return False
    for block in survey.before(tall):
        sch.compute_inline(block.handle)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    n, c, oh, _, _ = sch.get_loops(anchor.handle)
    oh_0, _ = sch.split(oh, [None, _rows(tall, anchor.extents[2], target)])
    for block in (*reversed(columns), tall):
        sch.compute_at(block.handle, oh_0)
        sch.set_scope(block.handle, 0, "local")
    window(sch, tall.handle, sch.cache_write(tall.handle, 0, "local"), target)
    sch.annotate(sch.get_loops(tall.handle)[3], HINT, True)
    for block in columns:
        by_vectors(sch, sch.get_loops(block.handle)[-1], target)
    window(sch, anchor.handle, last, target)
    overlap(sch, oh_0)
    outer = [n, c] if anchor.extents[2] is None else [n, c, oh_0]
    spread(sch, outer, tall.work + anchor.work)
    return True


def _rows(tall: BlockInfo, height: int | None, target: Target) -> int:
    """The most rows that fit, of a height that is cut into even parts."""
    if tall.extents[3] is None:
        return decide("rows", (8, 16, 4))
    fit = target.caches[0] // PART // (4 * (tall.extents[3] or 1))
    own = next((rows for rows in ROWS if rows <= fit), ROWS[-1])
    if height:
        own = -(-height // -(-height // own))
    return decide("rows", (own, *(rows for rows in ROWS if rows != own)))


def window(sch: Schedule, block: Any, last: Any, target: Target) -> None:
    """Vectors along the row, the window written out inside; `last` is done on the result."""
    row, step = sch.get_loops(block)[-2:]
    outer, lane = by_vectors(sch, row, target)
    sch.reorder(*outer, step, lane)
    above = outer[0] if outer else sch.get_loops(block)[-3]
    sch.reverse_compute_at(last, above)
    for each in (sch.decompose_reduction(block, step), last):
        sch.vectorize(sch.get_loops(each)[-1])
    sch.unroll(step)


def by_vectors(sch: Schedule, row: Any, target: Target) -> tuple[list[Any], Any]:
    """The loop over vectors, if there are several, and the vectorized one over lanes."""
    length = as_int(sch.get(row).extent)
    if length is None:
        lanes = target.lanes("float32")
        outer, lane = _cut(sch, row, lanes)
        sch.vectorize(lane)
        overlap(sch, *outer, narrower=[*([lanes // 2] if lanes // 2 > NARROW else []), NARROW])
        return outer, lane
    lanes = best_lanes(length, target.lanes("float32"))
    outer, lane = ([], row) if length <= lanes else _cut(sch, row, lanes)
    sch.vectorize(lane)
    return outer, lane


def _cut(sch: Schedule, row: Any, lanes: int) -> tuple[list[Any], Any]:
    outer, lane = sch.split(row, [None, lanes])
    return [outer], lane


def best_lanes(length: int, lanes: int) -> int:
    """Whole vectors, or half ones where a row of them is filled much better."""
    half = lanes // 2
    fuller = part_used(length, half) > 1.2 * part_used(length, lanes)
    return half if either("half vectors", fuller) else lanes


def _is_window(block: BlockInfo, target: Target) -> bool:
    """(n, channel, row, column), a small window along one of the last two; floats along memory, by
    the lanes of float32, in which half precision is computed."""
    axes, write = block.node.iter_vars, block.node.writes[0]
    return (
        block.kinds == "SSSSR"
        and len(block.node.writes) == 1
        and 1 < (block.extents[4] or 0) < WINDOW
        and (block.extents[3] is None or block.extents[3] >= 4)
        and write.buffer.dtype.is_float
        and write.buffer.dtype.bits in (16, 32)
        and write.region[-1].min is axes[3].var
    )
