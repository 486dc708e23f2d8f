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

Where the steps of a window are far apart and much of what it sees is padding, that is tested for
and not added (`SkipPadding`): rows of it before the loops over channels, and of columns just those,
since tiles and steps of the window along a row are written out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import evaluate
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import choose_tile, overlap, second_width, steady_loads
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.cache import LINE
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH
from mlcnb.tir.transform.skip_padding import PRAGMA as SKIP_PADDING

#: how far ahead weights are asked for, in elements: two pages; 0: not at all
AHEAD = (2048, 0, 1024, 4096)
#: weights of fewer elements stay in the second-level cache from one run to the next
FEW = 32 << 10
#: padding is skipped where this part of what a window sees, or less, is none
USED = 0.9
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
    far = None
    for block in before_window(sch, survey, anchor):
        if far is None and either("padding skipped", is_mostly_skipped(anchor, block)):
            sch.compute_inline(block.handle)
            far = block
        else:
            elementwise(sch, block, target)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    tile(sch, anchor, last, target, skips=far is not None)
    return True


def is_mostly_skipped(anchor: BlockInfo, pad: BlockInfo) -> bool:
    """True if a window of steps that are far apart sees much padding that this block makes."""
    padded = getattr(pad.node.body, "value", None)
    loads = [n for n in walk(anchor.node.body) if isinstance(n, BufferLoad)]
    reads = [n for n in loads if n.buffer is pad.node.writes[0].buffer]
    tested = isinstance(padded, e.Call) and padded.op == "tir.if_then_else" and len(reads) == 1
    known = anchor.kinds == "SSSSSRRRR" and None not in anchor.extents
    if pad.name != "pad_temp" or not known or not tested:
        return False
    axes = [axis.var for axis in anchor.node.iter_vars]
    moving = (2, 3, 6, 7)  # row, column, and the window's
    sizes = [anchor.extents[n] or 0 for n in moving]
    grid = np.ogrid[tuple(slice(size) for size in sizes)]
    seen = {axis: np.zeros([1] * 4, int) for axis in axes}
    seen |= {axes[n]: place for n, place in zip(moving, grid, strict=True)}
    at = [evaluate(index, seen, None) for index in reads[0].indices]
    if any(place is None for place in at):
        return False
    steps = (np.diff(at[n], axis=n) for n in (2, 3))
    named = dict(zip((axis.var for axis in pad.node.iter_vars), at, strict=True))
    inside = evaluate(padded.args[0], named, None)  # type: ignore[union-attr]
    if inside is None or not any((step > 1).any() for step in steps):
        return False
    return bool(np.broadcast_to(inside, sizes).mean() <= USED)


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


def before_window(sch: Schedule, survey: Survey, anchor: BlockInfo) -> list[BlockInfo]:
    """The blocks to do before a window. Plain copies that only what follows it reads (a number for
    each place, say) are read where they lie: what follows stands in the window's own loops."""
    feeding, before = survey.feeding(anchor), survey.before(anchor)
    beside = [b for b in before if b not in feeding and _is_copy(b)]
    for block in beside:
        sch.compute_inline(block.handle)
    return [b for b in before if b not in beside]


def _is_copy(block: BlockInfo) -> bool:
    body = block.node.body
    return block.is_spatial and isinstance(body, BufferStore) and isinstance(body.value, BufferLoad)


def fuse_epilogue(sch: Schedule, anchor: BlockInfo, after: list[BlockInfo]) -> Any:
    """The block that stores the result: the last elementwise one, with the others inside it."""
    for block in after[:-1]:
        sch.compute_inline(block.handle)
    if after:
        sch.set_scope(anchor.handle, 0, "local")
        return after[-1].handle
    return sch.cache_write(anchor.handle, 0, "local")


def tile(sch: Schedule, anchor: BlockInfo, last: Any, target: Target, skips: bool = False) -> None:
    """Split, reorder, and keep the accumulators in registers."""
    n, oc, oh, ow, c, *reduce = sch.get_loops(anchor.handle)
    (length, chunks), registers = (anchor.extents[n] for n in (3, 1)), target.vector_registers
    depth = math.prod(e or WINDOW for e in anchor.reduced())
    rows, vectors, _ = choose_tile(length, chunks, registers, target=target, depth=depth)
    oc_0, oc_1 = sch.split(oc, [None, vectors])
    ow_0, ow_1 = sch.split(ow, [None, rows])
    sch.reorder(n, oc_0, oh, ow_0, *reduce, ow_1, oc_1, c)
    overlap(sch, ow_0, narrower=second_width(rows, vectors))
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
    if skips:
        sch.annotate(reduce[0], SKIP_PADDING, True)
        sch.unroll(ow_0)
        sch.unroll(reduce[2])
    elif depth >= WINDOW:
        steady_loads(sch, reduce[-1], (rows, vectors), target)
    prefetch_weights(sch, anchor.node.reads, reduce[-1], target)
    spread(sch, [n, oc_0, oh], anchor.work)


def prefetch_weights(sch: Schedule, reads: Any, loop: Any, target: Target) -> None:
    """Ask for the weights of later iterations of `loop`, where there are many of them.

    reads: what the block reads, of which weights in blocks have six axes.

    Not where several vectors share a line, which each would ask for: what hardware fetches by
    itself then costs less.
    """
    whole = 4 * target.lanes("float32") >= LINE
    for region in reads:
        sizes = [as_int(d) for d in region.buffer.shape]
        if len(sizes) == 6 and math.prod(s or 0 for s in sizes) >= FEW:
            ahead = decide("weights asked for ahead", AHEAD if whole else sorted(AHEAD))
            if ahead:
                sch.annotate(loop, PREFETCH, [region.buffer.data.name, ahead])
