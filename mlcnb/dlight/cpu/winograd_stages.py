"""winograd_stages: a convolution by Winograd's filtering, and the loops of its transforms.

for n, o, y, x, c, r, q in …:         for tiles of a row: rows, then columns of the image
    Y[n, o, y, x] += …          ->    for channels:       rows, then columns of the weights
                                      products += …       as they are: a rule for sums takes them
                                      for tiles:          rows of the products, then columns, stored

The axis along which a transform chooses its formula (row or column of the tile) is written out
inside of all loops but the vector, so that the formulas share what they read.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.transpose import turned
from mlcnb.dlight.looking import amounts, extent
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: channels, summed up and of the result, from which on fewer products pay for the transforms
CHANNELS = 16


def may_be_tiles(sch: Schedule, block: Any) -> bool:
    """Whether a block is a convolution of 3 x 3 windows and enough channels for tiles to pay."""
    count, node = amounts(sch, block), sch.get(block)
    if count is None or count.reduce < 9 * CHANNELS or len(node.iter_vars) < 6:
        return False
    sizes = [as_int(v.dom.extent) for v in node.iter_vars]
    if sizes.count(3) < 2 or str(node.writes[0].buffer.dtype) != "float32":
        return False
    try:
        made = sch.copy()
        products = made.winograd(block, 4)[4]
    except ScheduleError:
        return False
    tiles = made.get(products).iter_vars
    return all((as_int(v.dom.extent) or 0) >= CHANNELS for v in (tiles[3], tiles[-1]))


def winograd_stages(sch: Schedule, block: Any, tile_size: int, target: Target) -> Any:
    """Compute a convolution by tiles, and lay all loops but those of the products: gives these.

    Raises:
        ScheduleError: the block is no convolution that can be computed so.
    """
    lanes = target.lanes("float32")
    image, data, weight_rows, weights, products, rows = sch.winograd(block, tile_size)
    _channels_last(sch, image, target)
    _image(sch, image, data, lanes)
    _transform(sch, weight_rows, 0, lanes)
    _transform(sch, weights, 1, lanes)
    _result(sch, rows, block, tile_size, lanes)
    return products


def _channels_last(sch: Schedule, image: Any, target: Target) -> None:
    """Copy the image so that its channels lie last, if they do not."""
    node = sch.get(image)
    channel, region = node.iter_vars[-1].var, node.reads[0].region
    at = next((n for n, r in enumerate(region) if r.min is channel), len(region) - 1)
    if at == len(region) - 1:
        return
    order = [*(n for n in range(len(region)) if n != at), at]
    copy = sch.cache_read(image, 0, "global")
    sch.transform_layout(image, ("read", 0), lambda *index: tuple(index[n] for n in order))
    sch.reorder_block_iter_var(copy, order)
    loops = sch.get_loops(copy)
    sch.reorder(*(loops[n] for n in order))
    turned(sch, copy, target)


def _image(sch: Schedule, rows: Any, data: Any, lanes: int) -> None:
    """The tiles of one row of the image at a time, for a vector of channels."""
    outer = sch.get(rows).iter_vars
    columns = as_int(sch.get(data).iter_vars[2].dom.extent) or 1
    for axis in outer[1 : len(outer) - len(sch.get(data).iter_vars) + 2]:
        columns //= as_int(axis.dom.extent) or 1
    row, column, tile, *channels = sch.get_loops(data)
    tiles, place = sch.split(tile, [None, columns])
    *more, vector = _vector(sch, channels.pop(), lanes)
    sch.reorder(tiles, *channels, *more, row, place, column, vector)
    sch.unroll(column)
    sch.vectorize(vector)
    sch.parallel(tiles)
    sch.compute_at(rows, [tiles, *channels, *more][-1], preserve_unit_loops=True)
    own = sch.get_loops(rows)[-len(outer) :]
    sch.reorder(*own[1:-1], own[0], own[-1])
    sch.unroll(own[0])
    sch.vectorize(own[-1])


def _transform(sch: Schedule, block: Any, chosen: int, lanes: int) -> None:
    """All values along the axis that chooses a formula together, for a vector of channels."""
    loops = sch.get_loops(block)
    *more, vector = _vector(sch, loops.pop(), lanes)
    formula = loops.pop(chosen)
    sch.reorder(*loops, *more, formula, vector)
    sch.unroll(formula)
    sch.vectorize(vector)
    sch.parallel(sch.fuse(*loops[:2]))


def _result(sch: Schedule, rows: Any, block: Any, tile: int, lanes: int) -> None:
    """Tile by tile, for a vector of channels: the products' rows, then columns."""
    node = sch.get(block)
    places = {n.a for n in walk(node.body) if isinstance(n, e.FloorMod) and as_int(n.b) == tile}
    channel = sch.get(rows).iter_vars[-1].var.name
    outer, inside, vector = list[Any](), list[Any](), None
    for axis, loop in zip(node.iter_vars, sch.get_loops(block), strict=True):
        if axis.var in places:
            whole, element = sch.split(loop, [None, tile])
            outer.append(whole)
            inside.append(element)
        elif axis.var.name == channel:
            *more, vector = _vector(sch, loop, lanes)
            outer += more
        else:
            outer.append(loop)
    assert vector is not None
    sch.reorder(*outer, *inside, vector)
    for loop in inside:
        sch.unroll(loop)
    sch.vectorize(vector)
    sch.compute_at(rows, outer[-1], preserve_unit_loops=True)
    row, column, *between, lane = sch.get_loops(rows)[len(outer) :]
    sch.reorder(column, *between, row, lane)
    for loop in (row, column):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.parallel(sch.fuse(*outer[:-1]))


def _vector(sch: Schedule, loop: Any, lanes: int) -> list[Any]:
    """Vectors and their lanes; a short loop as it is."""
    if (extent(sch, loop) or 0) <= lanes:
        return [loop]
    return list(sch.split(loop, [None, lanes]))
