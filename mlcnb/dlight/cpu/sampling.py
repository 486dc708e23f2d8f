"""sampling: an image read at places that another tensor gives, as vectors of its channels.

for c, i in T.grid(64, 3136):                    turned[p, c] = data[c, p]          # in tiles
    y[c, i] = data[c, place[i]] * …      ->      for i in T.parallel(3136):
                                                     for c_0 in T.unroll(4):
                                                         for c_1 in T.vectorized(16): …
                                                 y[c, i] = made[i, c]               # in tiles

As the image lies, the elements of a vector are looked up one by one, and where they lie is found
anew for each channel. With the channels last a place is found once, and all that lies there is read
as vectors. Both copies turn tiles in registers.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.pool_rows import by_vectors
from mlcnb.dlight.cpu.transpose import turn
from mlcnb.dlight.decide import either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad, reads_memory
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: channels from which on it pays to bring them last
CHANNELS = 8
#: elements of the image for each that is looked up: one of more would be copied in vain
LOOKED_UP = 4
#: channels that are written out for each place
WRITTEN_OUT = 128


def sampling(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a last block that looks up elements of each channel at places found from data."""
    if not survey.blocks or not all(block.is_spatial for block in survey.blocks):
        return False
    last = survey.blocks[-1]
    found = _looked_up(last)
    if found is None or not either("channels last", True):
        return False
    image, channels = found
    if (last.extents[channels] or 0) < CHANNELS:
        return _together(sch, last, channels, target)

    def channels_last(*axes: Any) -> tuple[Any, ...]:
        return (*axes[:channels], *axes[channels + 1 :], axes[channels])

    turned = sch.cache_read(last.handle, image, "global")
    sch.transform_layout(turned, ("write", 0), channels_last)
    sch.transform_block_layout(turned, channels_last)
    sch.cache_write(last.handle, 0, "global")
    sch.transform_layout(last.handle, ("write", 0), channels_last)
    for block in Survey.of(sch).blocks:
        if block.name != last.name and not turn(sch, block, target):
            elementwise(sch, block, target)
    loops = list(sch.get_loops(last.handle))
    lane = loops.pop(channels)
    sch.reorder(*loops, lane)
    vectors, _ = by_vectors(sch, lane, target)
    if vectors and (last.extents[channels] or 0) <= WRITTEN_OUT:
        sch.unroll(vectors[0])
    spread(sch, loops, last.work)
    return True


def _together(sch: Schedule, block: BlockInfo, channels: int, target: Target) -> bool:
    """Few channels: vectors of places, which are found once for all that is looked up there."""
    for other in Survey.of(sch).blocks[:-1]:
        elementwise(sch, other, target)
    loops = list(sch.get_loops(block.handle))
    channel = loops.pop(channels)
    row = sch.fuse(*loops[channels:]) if len(loops) - channels > 1 else loops[-1]
    outer, lane = by_vectors(sch, row, target)
    sch.reorder(*loops[:channels], *outer, channel, lane)
    sch.unroll(channel)
    spread(sch, [*loops[:channels], *outer], block.work)
    return True


def _looked_up(block: BlockInfo) -> tuple[int, int] | None:
    """The number of the buffer that is looked up, and the axis of its channels.

    Whatever is read of it lies at the block's own index along that axis, which nothing else in the
    block depends on; where it lies along other axes, the last among them, is read from memory.
    """
    if len(block.node.writes) != 1 or not isinstance(block.node.body, BufferStore):
        return None
    axes = [axis.var for axis in block.node.iter_vars]
    if list(block.node.body.indices) != axes:
        return None
    loads = [n for n in walk(block.node.body.value) if isinstance(n, BufferLoad)]
    found = {n.buffer for n in loads if any(reads_memory(i) for i in n.indices)}
    if len(found) != 1:
        return None
    (image,) = found
    own = [n for n in loads if n.buffer is image]
    if all(n.indices[-1] is axes[-1] for n in own):
        return None  # whole rows are looked up: they are vectors as they lie
    held = math.prod(as_int(size) or 0 for size in image.shape)
    if held > LOOKED_UP * len(own) * block.work:
        return None
    for channels in range(1, min(len(axes) - 1, len(image.shape))):
        axis = axes[channels]
        at = all(n.indices[channels] is axis for n in own)
        uses = sum(n is axis for n in walk(block.node.body.value))
        if at and uses == len(own) and block.extents[channels] is not None:
            return [r.buffer for r in block.node.reads].index(image), channels
    return None
