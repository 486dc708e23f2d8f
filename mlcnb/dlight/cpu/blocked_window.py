"""blocked_window: convolutions and pooling on channels in blocks of a vector's lanes.

for n, oc, oh, ow, c, ic, kh, kw, i in …:       for n_oc_oh in T.parallel(…):
    conv[n, oc, oh, ow, c] += …          ->         for ow_0 in range(4):
                                                        acc = 14 x 2 vectors, in registers
                                                        for ic, kh, kw, i in …:
                                                            for ow_1, oc_1, c: acc += …
                                                        y[…] = max(acc + bias, 0)

The accumulators live in registers for the whole reduction; what follows the convolution (bias,
activation, a residual) is done on them before they are stored. Wide enough tiles reach the peak of
the multiply-add units: see `mlcnb.dlight.cpu.tiles`.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import choose_tile, overlap
from mlcnb.dlight.decide import decide
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH

#: how far ahead weights are asked for, in elements: two pages; 0: not at all
AHEAD = (2048, 0, 1024, 4096)
#: weights of fewer elements stay in the second-level cache from one run to the next
FEW = 32 << 10
#: a window of fewer steps (of one channel: depthwise, pooling) is written out
WINDOW = 16


def blocked_window(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a reduction over (n, channel block, row, column, channel), lanes channels wide."""
    anchor = survey.anchor
    lanes = target.lanes("float32")
    if anchor is None or not is_blocked_window(anchor, lanes):
        return False
    if not survey.keeps_shape(anchor) or sum(b.is_reduction for b in survey.blocks) > 1:
        return False
    for block in survey.before(anchor):
        elementwise(sch, block, target)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    tile(sch, anchor, last, target)
    return True


def is_blocked_window(block: BlockInfo, lanes: int) -> bool:
    """Five spatial axes, the last as wide as a vector, then the reduction; float32 results."""
    writes = block.node.writes
    return (
        block.kinds.startswith("SSSSS")
        and "S" not in block.kinds[5:]
        and block.extents[4] == lanes
        and bool(writes)
        and writes[0].buffer.dtype == "float32"
        and writes[0].region[-1].min is block.node.iter_vars[4].var
    )


def fuse_epilogue(sch: Schedule, anchor: BlockInfo, after: list[BlockInfo]) -> Any:
    """The block that stores the result: the last elementwise one, with the others inside it."""
    for block in after[:-1]:
        sch.compute_inline(block.handle)
    if after:
        sch.set_scope(anchor.handle, 0, "local")
        return after[-1].handle
    return sch.cache_write(anchor.handle, 0, "local")


def tile(sch: Schedule, anchor: BlockInfo, last: Any, target: Target) -> None:
    """Split, reorder, and keep the accumulators in registers."""
    n, oc, oh, ow, c, *reduce = sch.get_loops(anchor.handle)
    (length, chunks), registers = (anchor.extents[n] for n in (3, 1)), target.vector_registers
    depth = math.prod(e or WINDOW for e in anchor.reduced())
    rows, vectors, _ = choose_tile(length, chunks, registers, target=target, depth=depth)
    oc_0, oc_1 = sch.split(oc, [None, vectors])
    ow_0, ow_1 = sch.split(ow, [None, rows])
    sch.reorder(n, oc_0, oh, ow_0, *reduce, ow_1, oc_1, c)
    overlap(sch, ow_0)
    sch.reverse_compute_at(last, ow_0)
    for loop in sch.get_loops(last)[4:-1]:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(last)[-1])
    start = sch.decompose_reduction(anchor.handle, reduce[0])
    for loop in (ow_1, oc_1, *sch.get_loops(start)[4:-1]):
        sch.unroll(loop)
    sch.vectorize(c)
    sch.vectorize(sch.get_loops(start)[-1])
    if depth < WINDOW:
        for loop in reduce:
            sch.unroll(loop)
    prefetch_weights(sch, anchor, reduce[-1])
    spread(sch, [n, oc_0, oh], anchor.work)


def prefetch_weights(sch: Schedule, anchor: BlockInfo, loop: Any) -> None:
    """Ask for the weights of later iterations of `loop`, where there are many of them."""
    for region in anchor.node.reads:
        sizes = [as_int(d) for d in region.buffer.shape]
        if len(sizes) == 6 and math.prod(s or 0 for s in sizes) >= FEW:
            ahead = decide("weights asked for ahead", AHEAD)
            if ahead:
                sch.annotate(loop, PREFETCH, [region.buffer.data.name, ahead])
