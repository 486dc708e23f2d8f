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
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.cpu.elementwise import elementwise, spread
from mlcnb.dlight.cpu.general import inline_chains, reduction
from mlcnb.dlight.cpu.winograd_stages import may_be_tiles, winograd_stages
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.looking import is_touched, reuses
from mlcnb.dlight.register_tiles import Laid, Parts, Summed, Tile, tiled
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: tiles among which a search may choose: in all, and with vectors along the same axis
TRIED, OF_A_KIND = 12, 4
#: how a convolution is computed
CONVOLUTIONS = ("direct", "Winograd's tiles of 4")
#: the part of L2 in which all that vectors are read from should stay
NEAR = 0.5


@dataclass(frozen=True)
class Way:
    """A tile, the axis that is padded for it (None: none) and to what multiple; cycles a step."""

    tile: Tile
    padded: int | None
    multiple: int
    cost: float

    def __str__(self) -> str:
        tile = self.tile
        rows = " x ".join(str(n) for n in tile.rows if n > 1) or "1"
        where = ", ".join(str(n) for n, rows in enumerate(tile.rows) if rows > 1)
        return (
            f"{rows}{where and f' (axis {where})'} by {tile.vectors} vectors of {tile.lanes} "
            f"(axis {tile.axis}{', padded' if self.padded is not None else ''})"
        )


def sums(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to functions with such a sum in float32 or float64, of known sizes."""
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
    dtype = str(block.node.writes[0].buffer.dtype)
    summed = Summed.of(block.node) if dtype in ("float32", "float64") else None
    if summed is None or 0 in summed.extents or not _reads_again(summed):
        return []
    lanes = target.lanes(dtype)
    found = [Way(tile, None, 1, tile.cost) for tile in summed.tiles(target, lanes)]
    for axis, letter in enumerate(summed.letters):
        size = summed.extents[axis]
        for multiple in (lanes, lanes // 2):
            room = -(-size // multiple) * multiple
            if letter != "S" or room == size or (multiple < lanes and room % lanes == 0):
                continue
            if not all(r.alone[axis] for r in (*summed.reads, summed.result) if r.moves[axis]):
                continue
            sizes = (*summed.extents[:axis], room, *summed.extents[axis + 1 :])
            for tile in replace(summed, extents=sizes).tiles(target, lanes):
                if tile.axis == axis:
                    found.append(Way(tile, axis, multiple, tile.cost * room / size))
    return _varied(sorted(found, key=lambda way: way.cost))


def _reads_again(summed: Summed) -> bool:
    """Whether results at different places read the same elements of an operand."""
    axes = [n for n, size in enumerate(summed.extents) if size > 1 and summed.letters[n] == "S"]
    return any(not r.moves[n] for r in summed.reads for n in axes)


def _varied(ways: Iterable[Way]) -> list[Way]:
    """The first of them, not too many with vectors along the same axis, packed in the same way."""
    kept, count = list[Way](), Counter[Any]()
    for way in ways:
        kind = way.tile.axis, way.tile.packed, way.padded
        count[kind] += 1
        if count[kind] <= OF_A_KIND:
            kept.append(way)
    return kept[:TRIED]


def _is_tiled(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """Lay a block's loops around the best tile that is legal; False where none is."""
    ways = _ways(sch, block, target)
    if not ways:
        return False
    wanted = decide("tile", ways, lambda way: way.cost)
    way = next((w for w in (wanted, *ways) if _is_legal(sch, block, w)), None)
    if way is None:
        return False
    laid, summed = _laid(sch, block, way)
    for loops in laid.copies:
        spread(sch, loops, block.work // summed.steps)
    outer = laid.outer
    if len(outer) > 2 and either("vectors inside", _stays_near(summed, way.tile, target)):
        first, *others, last = outer
        outer = [*others, first, last]
        sch.reorder(*outer)
    spread(sch, outer, block.work)
    return True


def _is_legal(sch: Schedule, block: BlockInfo, way: Way) -> bool:
    try:
        _laid(sch.copy(), block, way)
    except ScheduleError:
        return False
    return True


def _laid(sch: Schedule, block: BlockInfo, way: Way) -> tuple[Laid, Summed]:
    """The loops around a tile, after its axis was padded.

    Raises:
        ScheduleError: a step is not legal.
    """
    if way.padded is not None:
        axes = range(len(block.extents))
        sch.pad_einsum(block.handle, [way.multiple if n == way.padded else 1 for n in axes])
    summed = Summed.of(sch.get(block.handle))
    assert summed is not None
    return tiled(sch, block.handle, summed, way.tile, _whole), summed


def _whole(_sch: Schedule, loop: Any) -> Parts:
    """All tiles of an axis in one loop."""
    return [], [loop]


def _stays_near(summed: Summed, tile: Tile, target: Target) -> bool:
    """Whether all that lies along the vectors stays in L2 while the other axes go on."""
    sizes = (
        math.prod(n for n, moved in zip(summed.extents, r.moves, strict=True) if moved)
        for r in summed.reads
        if r.moves[tile.axis]
    )
    return 4 * sum(sizes) <= NEAR * target.caches[1]
