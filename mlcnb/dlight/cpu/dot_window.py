"""dot_window: convolutions of narrow values on channels in blocks, by sums of products.

for n, oc, oh, ow, c, ic, kh, kw, q, k in …:      for n_oc_oh in T.parallel(…):
    conv[n, oc, oh, ow, c] += …             ->        acc = 7 x 4 vectors, in registers
                                                      for ic, kh, kw, q in …:
                                                          for ow_1, oc_1: vpdpbusd: 16 sums of 4
                                                      y[…] = saturate(round((acc + bias) * scale))

Bytes are summed in int32 in fours, bfloat16 in float32 in twos (vdpbf16ps). The sums live in
registers for the whole reduction; what follows (bias, scaling back to bytes, a residual) is done on
them before they are stored. A depthwise window is written out whole, and its padding made for one
block of channels at a time, so that it stays in the cache.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.cpu.blocked_window import before_window, fuse_epilogue
from mlcnb.dlight.cpu.dot_products import use_instruction
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.tiles import Tile, choose_tile
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: block name -> how the instructions for it are called, before the target's own part
NAMES = {
    "qconv2d_packed": "dot",
    "conv2d_pairs_packed": "dot",
    "depthwise_qconv2d_packed": "taps",
}
#: sums of a depthwise tile: each needs a register, its data and its weights another
DEPTHWISE_ROWS = 14


def dot_window(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the packed convolutions of `mlcnb.op.qnn.conv` and `mlcnb.op.nn.conv_packed`."""
    anchor = survey.anchor
    if anchor is None or anchor.name not in NAMES or anchor.extents[4] != target.lanes("int32"):
        return False
    if not survey.keeps_shape(anchor) or sum(b.is_reduction for b in survey.blocks) > 1:
        return False
    before = before_window(sch, survey, anchor)
    last = fuse_epilogue(sch, anchor, survey.after(anchor))
    if NAMES[anchor.name] == "dot":
        dense(sch, before, anchor, last, target)
    else:
        depthwise(sch, before, anchor, last, target)
    return True


def dense(
    sch: Schedule, before: list[BlockInfo], anchor: BlockInfo, last: Any, target: Target
) -> None:
    """Tiles of positions and blocks of output channels."""
    for block in before:
        elementwise(sch, block, target)
    n, oc, oh, ow, c, ic, kh, kw, quad, dot = sch.get_loops(anchor.handle)
    data = as_int(anchor.node.reads[0].buffer.shape[1]) or 1
    groups = max(1, data // (anchor.extents[5] or data))
    chunks = None if anchor.extents[1] is None else anchor.extents[1] // groups
    rows, vectors, _ = dense_tile(anchor.extents[3], chunks, target)
    oc_0, oc_1 = sch.split(oc, [None, vectors])
    ow_0, ow_1 = sch.split(ow, [None, rows])
    sch.reorder(n, oc_0, oh, ow_0, ic, kh, kw, quad, ow_1, oc_1, c, dot)
    finish(sch, last, ow_0)
    start_sums(sch, anchor, ic)
    for loop in (ow_1, oc_1):
        sch.unroll(loop)
    use_instruction(sch, anchor, c, "dot", target)
    spread(sch, [n, oc_0, oh], anchor.work)


def dense_tile(length: int | None, chunks: int | None, target: Target) -> Tile:
    """The tile with the most products for each load; a broadcast of data is a load of its own."""
    widths = [v for v in (4, 3, 2, 1) if chunks is not None and chunks % v == 0] or [1]
    tiles = [choose_tile(length, chunks, target.vector_registers, v) for v in widths]

    def density(tile: Tile) -> float:
        work = tile.rows * tile.vectors
        used = 1.0 if length is None else length / (-(-length // tile.rows) * tile.rows)
        return used * min(1.0, work / 12) * work / (work + 0.25 * (tile.rows + tile.vectors))

    return max(tiles, key=density)


def depthwise(
    sch: Schedule, before: list[BlockInfo], anchor: BlockInfo, last: Any, target: Target
) -> None:
    """Tiles of positions; the window written out."""
    n, oc, oh, ow, c, kh, kw, dot = sch.get_loops(anchor.handle)
    rows = choose_tile(anchor.extents[3], 1, DEPTHWISE_ROWS + 4, 1).rows
    ow_0, ow_1 = sch.split(ow, [None, rows])
    sch.reorder(n, oc, oh, ow_0, kh, ow_1, kw, c, dot)
    finish(sch, last, ow_0)
    start_sums(sch, anchor, kh)
    for loop in (kh, ow_1, kw):
        sch.unroll(loop)
    use_instruction(sch, anchor, c, "taps", target)
    for block in before:
        pad(sch, block, oc, target)
    spread(sch, [n, oc], anchor.work)


def pad(sch: Schedule, block: BlockInfo, at: Any, target: Target) -> None:
    """The padding of one block of channels: filled with one value, the inside copied over it."""
    sch.compute_at(block.handle, at)
    rows = sch.get_loops(block.handle)[2]
    filled = sch.decompose_padding(block.handle, rows)
    for handle in (filled, block.handle):
        *_, columns, channels = sch.get_loops(handle)
        line = sch.fuse(columns, channels)
        length = as_int(sch.get(line).extent) or 1
        lanes = math.gcd(length, target.lanes("uint8"))
        sch.vectorize(sch.split(line, [None, lanes])[1])


def finish(sch: Schedule, last: Any, at: Any) -> None:
    """What is done with the sums, tile by tile."""
    sch.reverse_compute_at(last, at)
    *outer, lanes = sch.get_loops(last)
    for loop in outer[4:]:
        sch.unroll(loop)
    sch.vectorize(lanes)


def start_sums(sch: Schedule, anchor: BlockInfo, at: Any) -> None:
    """The zeros that the sums start from."""
    start = sch.decompose_reduction(anchor.handle, at)
    *outer, lanes = sch.get_loops(start)
    for loop in outer[4:]:
        sch.unroll(loop)
    sch.vectorize(lanes)
