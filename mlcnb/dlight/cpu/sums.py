"""sums: any sum whose operands are read again, by tiles of results that stay in registers.

for n, f, y, x, c, r, q in …:                   W_1 = channels of W side by side, 32 together
    Y[n, f, y, x] +=                    ->      for n, y, f_0, x_0:
        X[n, c, y + r, x + q] * W[f, c, r, q]       acc = 14 x 2 vectors, in registers
                                                    for c, r, q: for x_1, f_1, lane: acc += …
                                                    Y[…] = acc + bias, turned

A convolution on any layout and over any number of dimensions, a contraction of any axes, a
distance: what a block touches says which tiles fit, and what each costs
(`mlcnb.dlight.register_tiles`); what is of a known kind has a rule of its own before this one. An
axis that vectors do not divide is padded with zeros (`pad_einsum`) where that is cheaper than
another. The other blocks of the function are scheduled each by itself; one that stores the result
stands in the tiles. A search may try a convolution by Winograd's tiles too, which round otherwise
(`mlcnb.dlight.cpu.winograd_stages`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.general import inline_chains, reduction
from mlcnb.dlight.cpu.tiles import OVERLAP, overlap
from mlcnb.dlight.cpu.transpose import turned
from mlcnb.dlight.cpu.winograd_stages import may_be_tiles, winograd_stages
from mlcnb.dlight.decide import decide
from mlcnb.dlight.looking import is_touched, reuses
from mlcnb.dlight.loop_order import Tiles
from mlcnb.dlight.register_tiles import Laid, Summed, Tile, tiled
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: tiles among which a search may choose: in all, and with vectors along the same axis
TRIED, OF_A_KIND = 12, 4
#: how a convolution is computed
CONVOLUTIONS = ("direct", "Winograd's tiles of 4")
#: a way that costs more than this, by the cheapest, is none
FAR = 4.0
#: bits of a result: narrower ones are no sums
NARROWEST = 16


@dataclass(frozen=True)
class Way:
    """A tile and the order of loops over such; the axis that is padded for it (None: none), and to
    what multiple; cycles in all.
    """

    tile: Tile
    order: tuple[int, ...]
    padded: int | None
    multiple: int
    cost: float

    def __str__(self) -> str:
        tile = self.tile
        rows = " x ".join(str(n) for n in tile.rows if n > 1) or "1"
        where = ", ".join(str(n) for n, rows in enumerate(tile.rows) if rows > 1)
        return (
            f"{rows}{where and f' (axis {where})'} by {tile.vectors} vectors of {tile.lanes} "
            f"(axis {tile.axis}{', padded' if self.padded is not None else ''}), loops over axes "
            f"{', '.join(map(str, self.order))}"
        )


def sums(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to functions with such a sum."""
    if not any(_ways(sch, block, target) for block in survey.blocks):
        return False
    inline_chains(sch, survey)
    for block in Survey.of(sch).blocks:
        if block.is_reduction:
            _by_winograd(sch, block, target)
    for block in Survey.of(sch).blocks:
        if block.is_reduction and not _is_tiled(sch, block, target):
            reduction(sch, block, target)
    for block in Survey.of(sch).blocks:
        if block.is_spatial and not is_touched(sch, block.handle):
            elementwise(sch, block, target)
    return True


def _by_winograd(sch: Schedule, block: BlockInfo, target: Target) -> None:
    """A convolution as products of tiles, where a search asks for it."""
    if may_be_tiles(sch, block.handle) and decide("convolution", CONVOLUTIONS) != CONVOLUTIONS[0]:
        winograd_stages(sch, block.handle, 4, target)


def _ways(sch: Schedule, block: BlockInfo, target: Target) -> list[Way]:
    """The cheapest tiles of a block; none where it is no such sum."""
    if not block.is_reduction or not reuses(sch, block.handle):
        return []
    dtype = block.node.writes[0].buffer.dtype
    summed = Summed.of(block.node) if dtype.bits >= NARROWEST else None
    if summed is None or 0 in summed.extents or not _reads_again(summed):
        return []
    return _ways_of(summed, target, target.lanes(str(dtype)))


@lru_cache(maxsize=256)
def _ways_of(summed: Summed, target: Target, lanes: int) -> list[Way]:
    found = [_way(summed, tile, target) for tile in _varied(summed.tiles(target, lanes))]
    # where sizes are open, a padded copy is not worth it
    for axis, letter in enumerate("" if summed.open else summed.letters):
        size = summed.extents[axis]
        for multiple in (lanes, lanes // 2):
            room = -(-size // multiple) * multiple
            if letter != "S" or room == size or (multiple < lanes and room % lanes == 0):
                continue
            if not all(r.alone[axis] for r in (*summed.reads, summed.result) if r.moves[axis]):
                continue
            sizes = (*summed.extents[:axis], room, *summed.extents[axis + 1 :])
            wider = replace(summed, extents=sizes)
            tiles = (tile for tile in wider.tiles(target, lanes) if tile.axis == axis)
            found += [_way(wider, tile, target, axis, multiple) for tile in _varied(tiles)]
    best = min((way.cost for way in found), default=0.0)
    near = (way for way in found if way.cost <= FAR * best)
    return sorted(near, key=lambda way: way.cost)[:TRIED]


def _way(
    summed: Summed, tile: Tile, target: Target, padded: int | None = None, multiple: int = 1
) -> Way:
    """A tile with the best order of loops around it."""
    letters = enumerate(summed.letters)
    axes = [n for n, letter in letters if letter == "S" and n != tile.axis]
    each = (
        tile.width if n == tile.axis else rows if letter == "S" else summed.extents[n]
        for n, (rows, letter) in enumerate(zip(tile.rows, summed.letters, strict=True))
    )
    tiles = Tiles(summed.extents, tuple(each), (*summed.reads, summed.result), summed.nbytes)
    order, cycles = tiles.best([tile.axis, *axes], target)
    return Way(tile, order, padded, multiple, tile.cost * math.prod(summed.extents) + cycles)


def _reads_again(summed: Summed) -> bool:
    """Whether results at different places read the same elements of an operand."""
    axes = [n for n, size in enumerate(summed.extents) if size > 1 and summed.letters[n] == "S"]
    return any(not r.moves[n] for r in summed.reads for n in axes)


def _varied(tiles: Iterable[Tile]) -> list[Tile]:
    """The first of them, not too many with vectors along the same axis, packed in the same way."""
    kept, count = list[Tile](), Counter[Any]()
    for tile in tiles:
        count[tile.axis, tile.packed] += 1
        if count[tile.axis, tile.packed] <= OF_A_KIND:
            kept.append(tile)
    return kept


def _is_tiled(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """Lay a block's loops around the best tile that is legal; False where none is."""
    ways = _ways(sch, block, target)
    if not ways:
        return False
    wanted = decide("tile", ways, lambda way: way.cost)
    way = next((w for w in (wanted, *ways) if _is_legal(sch, block, w)), None)
    if way is None:
        return False
    laid = _laid(sch, block, way)
    for copy in laid.copies:
        turned(sch, copy, target)
    apart = takewhile(lambda x: OVERLAP not in sch.get(x).annotations, laid.outer)
    spread(sch, [*apart] or laid.outer[:1], block.work)
    return True


def _is_legal(sch: Schedule, block: BlockInfo, way: Way) -> bool:
    try:
        _laid(sch.copy(), block, way)
    except ScheduleError:
        return False
    return True


def _laid(sch: Schedule, block: BlockInfo, way: Way) -> Laid:
    """The loops around a tile, after its axis was padded.

    Raises:
        ScheduleError: a step is not legal.
    """
    if way.padded is not None:
        axes = range(len(block.extents))
        sch.pad_einsum(block.handle, [way.multiple if n == way.padded else 1 for n in axes])
    summed = Summed.of(sch.get(block.handle))
    assert summed is not None
    laid = tiled(sch, block.handle, summed, way.tile, way.order)
    for axis, loop in zip(way.order, laid.outer, strict=True):
        if axis == way.tile.axis or way.tile.rows[axis] > 1:
            overlap(sch, loop)
    return laid
