"""pointwise: a 1 x 1 convolution is a product of matrices, with the pixels as its rows.

for n, oc, oh, ow, c, ic, i in …:               for n_oc_0 in T.parallel(…):
    conv[n, oc, oh, ow, c] +=                       for px_0 in range(2):
        x[n, ic, oh, ow, i]                             acc = 25 x 1 vectors, in registers
        * w[oc, ic, i, c]                ->             for ic, i in …:
                                                            T.prefetch(&w[… + 2048])
                                                            for px_1, oc_1, c: acc += …
                                                        y[…, px // 7, px % 7, …] = acc + bias

                                                for n_px_0 in T.parallel(…):
                                         or         x_1 = pixels of a tile, side by side
                                                    for oc_0 in range(16):
                                                        acc = 6 x 2 vectors, in registers
                                                        …

With strides, the pixels that are used are copied first, to lie side by side.

Rows and columns of the image become one axis, so that tiles need not fit its rows: 7 x 7 pixels are
25 and 24. The more pixels in a tile, the fewer times the weights are read; where there are more
weights than pixels a tile is one vector of channels wide, else two. Weights that are read once in a
run come from memory: they are asked for early.

Channels of the image lie in blocks, each an image apart from the next: a tile reads a few lines of
each, and each time waits for the first. Where the multiply-adds of a block take not much longer
than that, tiles of pixels are outermost, and the weights are read again for each of them: those lie
in a row, and come as fast as they are used.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.cpu.blocked_window import (
    fuse_epilogue,
    is_blocked_window,
    prefetch_weights,
)
from mlcnb.dlight.cpu.blocking import NEXT_LINE
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import ENOUGH, Tile, choose_pixels
from mlcnb.dlight.decide import either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: the part of its multiply-adds' time that a tile may wait for pixels
WAITS = 0.1
#: times that a tile reads its pixels from which on they are copied; parts for each thread then
OFTEN, ENOUGH_PARTS = 4, 4


def pointwise(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a dense convolution of blocked channels whose window is one pixel, stride 1."""
    anchor = survey.anchor
    if anchor is None or not is_blocked_window(anchor, target.lanes("float32")):
        return False
    if not is_pointwise(anchor) or survey.before(anchor) or not survey.keeps_shape(anchor):
        return False
    images, chunks, height, width = (e or 0 for e in anchor.extents[:4])
    found = choose_pixels(width, height, chunks, target)
    if found is None:
        return False
    tile, over_rows = found
    first = either("pixels outermost", waits_for_pixels(anchor, tile, target))
    if not (tile.even or first) and chunks // tile.vectors < ENOUGH:
        return False  # too few channels to run in parallel instead
    parts = images * -(-height * width // tile.rows)
    copies = first and copied(parts, chunks // tile.vectors, target)
    if not copies and (image := strided_image(anchor)) is not None:
        gathered(sch, anchor, image)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    if over_rows:
        fuse_pixels(sch, anchor, last, width)
    copy = side_by_side(sch, anchor) if copies else None
    loops, steps = sch.get_loops(anchor.handle), len(anchor.reduced())
    (n, oc, *oh, px, c), reduce = loops[:-steps], loops[-steps:]
    oc_0, oc_1 = sch.split(oc, [None, tile.vectors])
    px_0, px_1 = sch.split(px, [None, tile.rows])
    outer = [n, *oh, px_0, oc_0] if first else [n, oc_0, *oh, px_0]
    sch.reorder(*outer, *reduce, px_1, oc_1, c)
    sch.reverse_compute_at(last, outer[-1])
    start = sch.decompose_reduction(anchor.handle, reduce[0])
    for block in (start, last):
        *inner, lane = sch.get_loops(block)[len(outer) :]
        for loop in inner:
            sch.unroll(loop)
        sch.vectorize(lane)
    sch.unroll(px_1)
    sch.unroll(oc_1)
    sch.vectorize(c)
    if copy is not None:
        sch.compute_at(copy, px_0)
        sch.vectorize(sch.get_loops(copy)[-1])
    if not first:
        prefetch_weights(sch, anchor, reduce[-1])  # of the inner channels, which are in blocks
    spread(sch, outer[:-1] if copies or not (first or tile.even) else outer, anchor.work)
    return True


def waits_for_pixels(anchor: BlockInfo, tile: Tile, target: Target) -> bool:
    """Whether tiles that read the image again for each of their columns would wait for it: for the
    first line of each block of channels, from the first cache that holds an image."""
    _, chunks, height, width, lanes = (e or 0 for e in anchor.extents[:5])
    depth = math.prod(e or 0 for e in anchor.reduced())
    if 4 * depth * chunks * lanes > target.caches[2] // 2:
        return False  # weights from memory, again and again
    image = 4 * depth * height * width
    late = next((n for n, size in enumerate(target.caches) if 2 * image <= size), -1)
    again = 1 - tile.vectors / chunks
    step = lanes * tile.rows * tile.vectors / target.multiply_adds
    return again * NEXT_LINE[late] > WAITS * step


def copied(parts: int, passes: int, target: Target) -> bool:
    """Whether each tile copies its pixels: where they are read several times, and there are tiles
    enough for the threads without cutting the channels too."""
    enough = target.num_cores == 1 or parts >= ENOUGH_PARTS * target.num_cores
    return either("pixels copied", passes >= OFTEN and enough)


def side_by_side(sch: Schedule, anchor: BlockInfo) -> Any:
    """The block that copies what a tile reads of the image: pixels of a block of channels, then
    those of the next."""
    height, width = anchor.extents[2:4]
    image = strided_image(anchor)
    image = _image(anchor, height, width) if image is None else image
    copy = sch.reindex(anchor.handle, ("read", image))

    def blocked(n: Any, *index: Any) -> Any:
        *pixels, outer, kh, kw, inner = index
        return n, outer, kh, kw, *pixels, inner

    sch.transform_layout(anchor.handle, ("read", image), blocked)
    sch.transform_block_layout(copy, blocked)
    return copy


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
