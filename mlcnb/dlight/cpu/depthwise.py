"""depthwise: each channel has a window of its own.

for oc, oh, ow, c, kh, kw in …:                 for oc_oh in T.parallel(…):
    conv[oc, oh, ow, c] +=                          for ow_0 in range(8):
        pad[…, oh + kh, ow + kw] * w    ->              acc = 14 vectors, in registers
                                                        for kh in range(3):
                                                            if 1 <= oh + kh < 113:
                                                                for ow_1, kw: acc += x[…] * w
                                                        y[…] = min(max(acc + bias, 0), 6)

A window does little with what it reads, so it reads the image where it lies: no padded copy is
made. `SkipPadding` turns zeros into tests, which `LoopPartition` keeps out of all but the first and
last tile of a row.
"""

from __future__ import annotations

from mlcnb.dlight.cpu.blocked_window import before_window, fuse_epilogue, is_blocked_window
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import open_use, overlap
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: windows of more rows times columns than this are left to other rules
LARGEST = 64
#: asks `SkipPadding` to add no padding below a loop
SKIP_PADDING = "pragma_skip_padding"


def depthwise(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a window over blocked channels that sums over no channel."""
    anchor = survey.anchor
    if anchor is None or not is_blocked_window(anchor, target.lanes("float32")):
        return False
    named = anchor.name == "depthwise_conv2d_NCHWc" and anchor.kinds == "SSSSSRR"
    if not named or not survey.keeps_shape(anchor):
        return False
    is_open = anchor.extents[3] is None
    read_in_place(sch, before_window(sch, survey, anchor), is_open, target)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    n, oc, oh, ow, c, kh, kw = sch.get_loops(anchor.handle)
    ow_0, ow_1 = sch.split(ow, [None, columns(anchor, target)])
    overlap(sch, ow_0)
    sch.reorder(n, oc, oh, ow_0, kh, ow_1, kw, c)
    sch.reverse_compute_at(last, ow_0)
    for loop in sch.get_loops(last)[4:-1]:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(last)[-1])
    start = sch.decompose_reduction(anchor.handle, kh)
    for loop in (ow_1, kw, *sch.get_loops(start)[4:-1]):
        sch.unroll(loop)
    sch.vectorize(c)
    sch.vectorize(sch.get_loops(start)[-1])
    if not is_open:
        sch.annotate(kh, SKIP_PADDING, True)
    spread(sch, [n, oc, oh], anchor.work)
    return True


def read_in_place(sch: Schedule, before: list[BlockInfo], is_open: bool, target: Target) -> None:
    """Padding becomes a test where it is read; other blocks are made beforehand, and padding of
    rows of open length, whose tiles would all be tested."""
    for block in before:
        if block.name == "pad_temp" and block.is_spatial and not is_open:
            sch.compute_inline(block.handle)
        else:
            elementwise(sch, block, target)


def columns(anchor: BlockInfo, target: Target) -> int:
    """Results of a row at once: what divides the row best, with registers left for the window."""
    length = anchor.extents[3]
    most = target.vector_registers // 2
    if length is None:
        return max(range(1, most + 1), key=lambda rows: open_use(rows) * rows / (rows + 1))
    tiles = -(-length // most)
    return -(-length // tiles)
