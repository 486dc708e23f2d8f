"""pointwise: a 1 x 1 convolution is a product of matrices, with the pixels as its rows.

for n, oc, oh, ow, c, ic, i in …:               for n_oc_0 in T.parallel(…):
    conv[n, oc, oh, ow, c] +=                       for px_0 in range(2):
        x[n, ic, oh, ow, i]                             acc = 25 x 1 vectors, in registers
        * w[oc, ic, i, c]                ->             for ic, i in …:
                                                            T.prefetch(&w[… + 2048])
                                                            for px_1, oc_1, c: acc += …
                                                        y[…, px // 7, px % 7, …] = acc + bias

With strides, the pixels that are used are copied first, to lie side by side. So are those that each
place of a larger window sees, where rows are shorter than a good tile.

Rows and columns of the image become one axis, so that tiles need not fit its rows: 7 x 7 pixels are
25 and 24. The more pixels in a tile, the fewer times the weights are read; where there are more
weights than pixels a tile is one vector of channels wide, else two. Weights that are read once in a
run come from memory: they are asked for early, where a vector is a line. A block of channels that
takes less time than a line from far away is written out (`tiles.steady_loads`).
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.cpu.blocked_window import (
    before_window,
    fuse_epilogue,
    is_blocked_window,
    prefetch_weights,
)
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import Tile, choose_pixels, choose_tile, gain_over_rows, steady_loads
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: how much less a tile must cost that needs what windows see side by side; and multiply-adds in the
#: time in which a vector of that is copied
ENOUGH_GAIN, COPY = 1.1, 6


def pointwise(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a dense convolution of blocked channels: of a window of one pixel, or of small
    images.
    """
    anchor = survey.anchor
    if anchor is None or not is_blocked_window(anchor, target.lanes("float32")):
        return False
    before = before_window(sch, survey, anchor)
    found = _tile(anchor, before, target) if survey.keeps_shape(anchor) else None
    if found is None:
        return False
    tile, over_rows = found
    if (image := strided_image(anchor)) is not None:
        gathered(sch, anchor, image)
        for block in before:
            sch.compute_inline(block.handle)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    if over_rows:
        fuse_pixels(sch, anchor, last, anchor.extents[3] or 0)
    loops, steps = sch.get_loops(anchor.handle), len(anchor.reduced())
    (n, oc, *oh, px, c), reduce = loops[:-steps], loops[-steps:]
    oc_0, oc_1 = sch.split(oc, [None, tile.vectors])
    px_0, px_1 = sch.split(px, [None, tile.rows])
    outer = [n, oc_0, *oh, px_0]
    sch.reorder(*outer, *reduce, px_1, oc_1, c)
    sch.reverse_compute_at(last, px_0)
    start = sch.decompose_reduction(anchor.handle, reduce[0])
    for block in (start, last):
        *inner, lane = sch.get_loops(block)[len(outer) :]
        for loop in inner:
            sch.unroll(loop)
        sch.vectorize(lane)
    sch.unroll(px_1)
    sch.unroll(oc_1)
    sch.vectorize(c)
    inner = reduce[-1]  # of the inner channels, where they are in blocks
    steady_loads(sch, inner, (tile.rows, tile.vectors), target)
    prefetch_weights(sch, anchor.node.reads, inner, target)
    spread(sch, outer if tile.even else outer[:-1], anchor.work)
    return True


def _tile(anchor: BlockInfo, before: list[BlockInfo], target: Target) -> tuple[Tile, bool] | None:
    """The tile, and whether it runs over the ends of rows; None where this is not the way."""
    _, chunks, height, width = (e or 0 for e in anchor.extents[:4])
    if is_pointwise(anchor):
        return None if before else choose_pixels(width, height, chunks, target)
    is_window = anchor.name == "conv2d_NCHWc" and anchor.kinds == "SSSSSRRRR"
    if not is_window or None in anchor.extents or any(b.name != "pad_temp" for b in before):
        return None
    depth = math.prod(e or 0 for e in anchor.reduced())
    gain = gain_over_rows(width, height, chunks, target, depth)
    if strided_image(anchor) is None or gain < ENOUGH_GAIN + COPY / chunks:
        return None
    size = width * height
    return choose_tile(size, chunks, target.vector_registers, target=target, depth=depth), True


def is_pointwise(block: BlockInfo) -> bool:
    """A window of one pixel, on an image as large as the result or on some pixels of a larger one,
    its channels in blocks or not."""
    if block.name != "conv2d_NCHWc" or block.kinds not in ("SSSSSRRR", "SSSSSRRRR"):
        return False
    _, _, height, width, _, _, *window = block.extents[:8]
    if None in (height, width) or window != [1, 1]:
        return False
    return strided_image(block) is not None or _image(block, height, width) is not None


def _image(block: BlockInfo, height: int | None, width: int | None) -> int | None:
    """Which of its inputs is an image in blocks of channels, of this size."""
    shapes = [[as_int(d) for d in r.buffer.shape] for r in block.node.reads]
    lanes = block.extents[4]
    found = (n for n, shape in enumerate(shapes) if shape[2:] == [height, width, lanes])
    return next(found, None)


def strided_image(block: BlockInfo) -> int | None:
    """Which of its inputs is an image of which pixels are left out; None where all are used."""
    height, width = block.extents[2:4]
    if len(block.kinds) != 9 or _image(block, height, width) is not None:
        return None
    found = [n for n, r in enumerate(block.node.reads) if len(r.buffer.shape) == 5]
    found = [n for n in found if block.node.reads[n].buffer is not block.node.writes[0].buffer]
    return found[0] if len(found) == 1 else None


def gathered(sch: Schedule, anchor: BlockInfo, image: int) -> None:
    """Copy the pixels that are used, so that they lie side by side."""
    copy = sch.reindex(anchor.handle, ("read", image))

    def blocked(n: Any, oh: Any, ow: Any, outer: Any, kh: Any, kw: Any, inner: Any) -> Any:
        return n, outer, kh, kw, oh, ow, inner

    sch.transform_layout(anchor.handle, ("read", image), blocked)
    sch.transform_block_layout(copy, blocked)
    sch.vectorize(sch.get_loops(copy)[-1])


def fuse_pixels(sch: Schedule, anchor: BlockInfo, last: Any, width: int) -> None:
    """Make one axis of rows and columns, in both blocks and in the accumulators between them."""

    def pixels(n: Any, oc: Any, oh: Any, ow: Any, c: Any, *reduce: Any) -> tuple[Any, ...]:
        return n, oc, oh * width + ow, c, *reduce

    sch.transform_layout(anchor.handle, ("write", 0), pixels)
    sch.transform_block_layout(anchor.handle, pixels)
    sch.transform_block_layout(last, pixels)
