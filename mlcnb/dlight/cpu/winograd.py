"""winograd: tiles are transformed block by block, multiplied in registers, transformed back.

for … data_pack[eps, nu, …] = …                 for block in T.parallel(…):
for … bgemm[eps, nu, …] += …                        for ic, tile: data_pack = …       (in L2)
for … inverse_rows[…] = …              ->           for oc_0:
for … y[…] = max(… + bias, 0)                           for eps, nu: acc = 14 x 2 vectors, in
                                                            registers; bgemm = acc    (in L1)
                                                        for tile: y = max(A^T bgemm A + bias, 0)

Where the weights are so large that they should be read but once, or the image so small that it has
too few blocks, all inputs are transformed first: see `mlcnb.machine.winograd`. Large weights are
transformed by each run: a row of the tile at a time, for all tiles; where those are so few (7 x 7:
four) that registers hold the products of a row, each step makes the row's weights in registers.
Tiles that reach beyond the image read zeros; what they compute beyond it is not stored. An image
that stays in L2 is padded as its rows are transformed; of a larger one each piece is copied before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mlcnb.dlight.cpu.blocked_window import prefetch_weights
from mlcnb.dlight.cpu.tiles import STEADY_BYTES, steady_loads, vector_reads
from mlcnb.dlight.decide import either
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.expr import Call
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.winograd import Pieces, Size, choose_pieces
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import Block, BufferStore
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH


class Blocks(NamedTuple):
    """The handles of the stages; `last` stores the result, `source` is what the tiles are cut from
    (None: an argument), `weights` are rows and columns of weights (None: transformed already).
    """

    source: Any
    weights: tuple[Any, Any] | None
    rows: Any
    pack: Any
    product: Any
    inverse: Any
    last: Any


def winograd(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the loops of nn.contrib_conv2d_winograd, with weights transformed before or not, and
    to what is computed elementwise before and after; channels are in blocks.
    """
    found = {b.name: b for b in survey.blocks}
    if "bgemm" not in found or "conv2d_winograd" not in found:
        return False
    size = _size(found["bgemm"], found["data_pack"], target)
    if size is None:
        return False
    blocks = _inlined(sch, survey, found, target)
    if blocks is None:
        return False
    tile = found["inverse_rows"].extents[0] or 1
    pieces = choose_pieces(size, target, blocks.weights is not None)
    _schedule(sch, blocks, tile, pieces, target)
    return True


def _size(product: BlockInfo, inputs: BlockInfo, target: Target) -> Size | None:
    """eps, nu, image, chunk of channels, row, column, channel; and the sum over two axes, of as
    many chunks as the inputs have, or those of one of their groups.
    """
    lanes = target.lanes("float32")
    known = [*product.extents[:2], *product.extents[3:]]
    if product.kinds != "SSSSSSSRR" or product.extents[6] != lanes or None in known:
        return None
    if product.node.writes[0].buffer.dtype != "float32":
        return None
    alpha, _, images, chunks, rows, columns, _, outer, inner = (e or 0 for e in product.extents)
    groups = (inputs.extents[3] or outer) // outer
    return Size(images or 1, (rows, columns), outer * inner, chunks * lanes, alpha, groups)


def _inlined(
    sch: Schedule, survey: Survey, found: dict[str, BlockInfo], target: Target
) -> Blocks | None:
    """Elementwise blocks before the tiles go into one, and those after into the last."""
    output = found["conv2d_winograd"]
    after = survey.after(output)
    if not all(b.is_spatial and b.extents == output.extents for b in after):
        return None
    before = survey.feeding(found["input_rows"])
    beside = [b for b in survey.before(output) if b not in survey.feeding(output)]
    if not all(b.is_spatial for b in (*before, *beside)):
        return None
    for block in (*beside, *before[:-1]):
        sch.compute_inline(block.handle)
    source = before[-1].handle if before else None
    if source is not None and _is_padding(sch.get(source)):
        near = 4 * before[-1].work <= target.caches[1]
        if either("padding inlined", near):
            sch.compute_inline(source)
            source = None
    chain = [output, *after]
    for block in chain[:-1]:
        sch.compute_inline(block.handle)
    weights = None
    if "transform_weight" in found:
        weights = found["weight_rows"].handle, found["transform_weight"].handle
    return Blocks(
        weights=weights,
        source=source,
        rows=found["input_rows"].handle,
        pack=found["data_pack"].handle,
        product=found["bgemm"].handle,
        inverse=found["inverse_rows"].handle,
        last=chain[-1].handle,
    )


def _is_padding(block: Block) -> bool:
    """True of a block that puts something around what it reads, and does nothing else."""
    match block.body:
        case BufferStore(value=Call(op="tir.if_then_else", args=(_, BufferLoad(), _))):
            return True
    return False


def _schedule(sch: Schedule, blocks: Blocks, tile: int, pieces: Pieces, target: Target) -> None:
    n, th_0, tw_0, oc_0, oc_1 = _tile_output(sch, blocks.last, tile, pieces)
    _inverse(sch, blocks.inverse, oc_1)
    row = _product(sch, blocks.product, oc_0, pieces, blocks.weights is None, target)
    if pieces.fused:
        _transform(sch, blocks, tw_0)
        sch.parallel(sch.fuse(n, th_0, tw_0))
    else:
        _transform(sch, blocks, None)
        if blocks.weights is not None:
            _weights(sch, *blocks.weights, row, pieces.whole_rows)
        sch.parallel(sch.fuse(n, th_0, tw_0, oc_0))


def _tile_output(sch: Schedule, last: Any, tile: int, pieces: Pieces) -> tuple[Any, ...]:
    """Blocks of tiles outside, then channels, then the tiles and their elements."""
    n, oc, h, w, c = sch.get_loops(last)
    th, h_1 = sch.split(h, [None, tile])
    tw, w_1 = sch.split(w, [None, tile])
    th_0, th_1 = sch.split(th, [None, pieces.block[0]])
    tw_0, tw_1 = sch.split(tw, [None, pieces.block[1]])
    oc_0, oc_1 = sch.split(oc, [None, pieces.vectors])
    sch.reorder(n, th_0, tw_0, oc_0, th_1, tw_1, oc_1, h_1, w_1, c)
    sch.unroll(w_1)
    sch.vectorize(c)
    return n, th_0, tw_0, oc_0, oc_1


def _inverse(sch: Schedule, inverse: Any, at: Any) -> None:
    """The rows of one tile, column by column."""
    sch.compute_at(inverse, at, preserve_unit_loops=True)
    row, nu, *_, lane = sch.get_loops(inverse)[-7:]
    sch.reorder(nu, row)
    sch.unroll(row)
    sch.vectorize(lane)


def _product(
    sch: Schedule, product: Any, at: Any, pieces: Pieces, made_before: bool, target: Target
) -> Any:
    """For every (eps, nu) a matrix product, whose sums are formed in registers; where all weights
    that it needs of a row of the tile are made: in the loop over rows, or at a step of the sum.
    Weights that were made before come from L3 or from memory, and are asked for in time: where
    there are so few tiles that they are read faster than that, hardware does it as well.
    """
    stored = sch.cache_write(product, 0, "global")
    sch.set_scope(product, 0, "local")
    sch.compute_at(stored, at, preserve_unit_loops=True)
    eps, nu, image, oc, th, tw, lane = sch.get_loops(stored)[-7:]
    th_0, th_1 = sch.split(th, [None, pieces.registers[0]])
    tw_0, tw_1 = sch.split(tw, [None, pieces.registers[1]])
    inside, outside = ([nu], []) if pieces.whole_rows else ([], [nu])
    sch.reorder(eps, *outside, image, th_0, tw_0, *inside, th_1, tw_1, oc, lane)
    sch.compute_at(product, tw_0, preserve_unit_loops=True)
    *_, nu_1, image_1, oc_1, row, column, channel, outer, inner = sch.get_loops(product)
    sch.reorder(outer, inner, nu_1, image_1, row, column, oc_1, channel)
    start = sch.decompose_reduction(product, outer)
    begun = sch.get_loops(start)
    written_out = (nu_1, image_1, row, column, oc_1, *begun[-6:-1])
    for loop in (*inside, th_1, tw_1, oc, *written_out):
        sch.unroll(loop)
    for loop in (lane, channel, begun[-1]):
        sch.vectorize(loop)
    tiles = math.prod(pieces.registers)
    if not pieces.whole_rows:
        steady_loads(sch, inner, (tiles, pieces.vectors), target)
    if made_before and tiles > vector_reads(target, target.lanes("float32"), STEADY_BYTES):
        prefetch_weights(sch, sch.get(product).reads, inner, target)
    return inner if pieces.whole_rows else eps


def _transform(sch: Schedule, blocks: Blocks, at: Any) -> None:
    """Tiles of inputs, row by row of tiles: `source` and its transformed rows stay in L1."""
    if at is not None:
        sch.compute_at(blocks.pack, at, preserve_unit_loops=True)
    eps, nu, image, ic, th, tw, lane = sch.get_loops(blocks.pack)[-7:]
    first, second = (ic, th) if at is not None else (th, ic)
    sch.reorder(image, first, second, tw, eps, nu, lane)
    sch.compute_at(blocks.rows, second, preserve_unit_loops=True)
    eps_1, *_, column, lane_1 = sch.get_loops(blocks.rows)[-6:]
    sch.reorder(column, eps_1, lane_1)
    for loop in (nu, eps_1):
        sch.unroll(loop)
    for loop in (lane, lane_1):
        sch.vectorize(loop)
    if blocks.source is not None:
        sch.compute_at(blocks.source, second)
        sch.vectorize(sch.get_loops(blocks.source)[-1])
    if at is None:
        sch.parallel(sch.fuse(image, th, ic))


def _weights(sch: Schedule, rows: Any, both: Any, at: Any, in_registers: bool) -> None:
    """The weights of some output channels and one row of the tile: a window goes in, alpha vectors
    come out, which stay in L2 for the products of that row, or in registers for one step.
    """
    sch.compute_at(both, at, preserve_unit_loops=True)
    oc, outer, eps, nu, inner, lane = sch.get_loops(both)[-6:]
    if in_registers:
        sch.set_scope(both, 0, "local")
        _ask_early(sch, rows, at)
        step, single = at, [oc, outer, eps, inner]
    else:
        sch.reorder(oc, outer, inner, eps, nu, lane)
        step, single = inner, []
    sch.compute_at(rows, step, preserve_unit_loops=True)
    *_, column, _, lane_1 = sch.get_loops(rows)[-6:]
    for loop in (*single, nu, column):
        sch.unroll(loop)
    for loop in (lane, lane_1):
        sch.vectorize(loop)


def _ask_early(sch: Schedule, rows: Any, step: Any) -> None:
    """The weights come from memory: those of the next channels are asked for."""
    weights = sch.get(rows).reads[0].buffer
    ahead = math.prod(as_int(d) or 1 for d in weights.shape[2:])
    sch.annotate(step, PREFETCH, [weights.data.name, ahead])
