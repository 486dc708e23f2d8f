"""pool: windows that slide over channels in blocks of a vector's lanes.

for i in …: pad[i] = x[i - 1] if … else 0       for n_oc_oh in T.parallel(…):
for n, oc, oh, ow, c, rh, rw in …:       ->         for ow in range(56):       # cut at its ends
    pool[n, oc, oh, ow, c] = max(…)                     acc = -inf             # one vector
                                                        for rh, rw in unrolled:
                                                            acc = max(acc, x[…] if … else -inf)
                                                        pool[…] = acc

The padding is not written to memory: the test is made where a window reads, and the hint to
LoopPartition takes it out of the long middle of each row. What follows (the division of a mean, an
activation) is done on the accumulator.
"""

from __future__ import annotations

import math

from mlcnb.dlight.cpu.blocked_window import WINDOW, fuse_epilogue, is_blocked_window
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.loop_partition import HINT


def pool(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a window of one operand over (n, channel block, row, column, channel)."""
    anchor = survey.anchor
    if anchor is None or not _is_pool(anchor, survey, target.lanes("float32")):
        return False
    for block in survey.before(anchor):
        sch.compute_inline(block.handle)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    n, oc, oh, ow, c, *window = sch.get_loops(anchor.handle)
    sch.reorder(n, oc, oh, ow, *window, c)
    sch.reverse_compute_at(last, ow)
    start = sch.decompose_reduction(anchor.handle, window[0])
    for block in (start, anchor.handle, last):
        sch.vectorize(sch.get_loops(block)[-1])
    for loop in window:
        sch.unroll(loop)
    sch.annotate(ow, HINT, True)
    spread(sch, [n, oc, oh], anchor.work)
    return True


def _is_pool(anchor: BlockInfo, survey: Survey, lanes: int) -> bool:
    """One operand, windows small enough to be written out, results in rows."""
    operands = [r for r in anchor.node.reads if r.buffer is not anchor.node.writes[0].buffer]
    around = [b for b in survey.blocks if b is not anchor]
    return (
        is_blocked_window(anchor, lanes)
        and len(operands) == 1
        and len(anchor.reduced()) == 2
        and (anchor.extents[3] or 0) > 1
        and math.prod(e or WINDOW for e in anchor.reduced()) < WINDOW
        and all(b.is_spatial for b in around)
        and all(b.spatial() == anchor.spatial() for b in survey.after(anchor))
    )
