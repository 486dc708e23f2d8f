"""RegisterTiling: tiles of results that stay in registers for the whole of a sum.

for i, j, k in T.grid(…):     for i0, j0, j1, i1 in T.grid(…):       drawn: tasks, and their tiles
    C[i, j] += …          ->      acc = 0                            6 x 2 vectors, in registers
                                  for k: for i2, j2, lane: acc += A[i, k] * packed B[k, j]
                                  C[…] = acc

Which tiles: `register_tiles`, by what a block's accesses say. Each is a schedule of its own, of
which only the tiles around it are draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.looking import PREPROC, is_spatial, kinds, layout_free, reuses
from mlcnb.meta_schedule.register_tiles import Summed, Tile
from mlcnb.meta_schedule.schedule_rule.multi_level_tiling import STRUCTURE
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: a sum of so few steps is written out
FEW_STEPS = 16
#: tiles that are tried, by the cost of the cheapest
CLOSE = 1.25


@dataclass(eq=False)
class RegisterTiling(ScheduleRule):
    """Sums whose operands are read again; the schedule as it was comes last.

    Args:
        max_tiles: how many tiles of registers are tried, the cheapest.
        max_of_a_kind: how many of them with vectors along the same axis, packed in the same way.
    """

    kind = "register-tiling"
    max_tiles: int = 12
    max_of_a_kind: int = 4

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """A schedule for each tile, and the schedule as it was."""
        if not reuses(sch, block):
            return [sch]
        dtype = sch.get(block).writes[0].buffer.dtype
        if not dtype.is_float:
            return [sch]
        lanes = self.target.lanes(str(dtype))
        found = self._tiled(sch, block, lanes)
        if not found:
            padded = tried(sch, lambda s: _pad(s, block, self.target, lanes))
            found = [] if padded is None else self._tiled(padded, block, lanes)
        return [*found, sch]

    def _tiled(self, sch: Schedule, block: Any, lanes: int) -> list[Schedule]:
        """A schedule for each of the cheapest tiles that are legal."""
        summed, found = Summed.of(sch.get(block)), list[Schedule]()
        if summed is None:
            return found
        count: dict[Any, int] = {}
        tiles = summed.tiles(self.target, lanes)
        for tile in (t for t in tiles if t.cost <= CLOSE * tiles[0].cost):
            which = tile.axis, tile.packed
            if count.get(which, 0) >= self.max_of_a_kind:
                continue
            made = tried(sch, lambda s, tile=tile: tiled(s, block, summed, tile))
            if made is not None:
                count[which] = count.get(which, 0) + 1
                found.append(made)
            if len(found) == self.max_tiles:
                break
        return found


def _pad(sch: Schedule, block: Any, target: Target, lanes: int) -> None:
    """Round the axis along which results lie up to whole vectors, or half ones.

    Raises:
        ScheduleError: the block is no product, whose sums zeros do not change.
    """
    node = sch.get(block)
    last = node.writes[0].region[-1].min
    each = lanes // 2 if target.halves_vectors else lanes
    sch.pad_einsum(block, [each if v.var is last else 1 for v in node.iter_vars])


def tiled(sch: Schedule, block: Any, summed: Summed, tile: Tile) -> None:
    """Lay a block's loops around a tile.

    Raises:
        ScheduleError: a step is not legal.
    """
    sch.annotate(block, STRUCTURE, "SSRS")
    for place in tile.packed:
        is_free = sch.get(block).reads[place].buffer in layout_free(sch)
        copy = sch.cache_read(block, place, "global")
        if is_free:
            sch.annotate(copy, PREPROC, True)
        side = ("read", place)
        sch.transform_layout(block, side, _packing(summed, summed.read(place), tile))
    kept = _kept(sch, block)
    stored = [*kept]
    if tile.turned:
        stored.insert(0, sch.cache_write(block, 0, "global"))
        sch.transform_layout(block, ("write", 0), _packing(summed, summed.result, tile))
    if tile.turned or not kept:
        stored.insert(0, sch.cache_write(block, 0, "local"))
    else:
        sch.set_scope(block, 0, "local")
    outer, reduce, inner = _split(sch, block, tile)
    for one in stored:
        sch.reverse_compute_at(one, outer[-1], preserve_unit_loops=True)
    start = sch.decompose_reduction(block, reduce[0])
    for one, width in ((start, None), (stored[0], tile.lanes)):
        _written_out(sch, one, len(outer), width)
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
    if summed.steps <= FEW_STEPS:
        for loop in reduce:
            sch.unroll(loop)


def _kept(sch: Schedule, block: Any) -> list[Any]:
    """The only block that reads the result, element by element: it stores what is in registers."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or not is_spatial(sch, consumers[0]):
        return []
    return consumers


def _packing(summed: Summed, touch: Any, tile: Tile) -> Any:
    """The index map after which places along the axis of the vectors lie together: spatial axes
    first, in blocks of a tile, then reduce axes, then the places in a tile."""
    at, reduced = touch.dimension(tile.axis), summed.reduced(touch)

    def packed(*index: Any) -> tuple[Any, ...]:
        outer = [x // tile.width if n == at else x for n, x in enumerate(index)]
        first = [x for n, x in enumerate(outer) if n not in reduced]
        return (*first, *(x for n, x in enumerate(outer) if n in reduced), index[at] % tile.width)

    return packed


def _split(sch: Schedule, block: Any, tile: Tile) -> tuple[list[Any], list[Any], list[Any]]:
    """(loops over tasks and over their tiles, over the steps of the sum, over a tile)."""
    loops = sch.get_loops(block)
    tasks, own, reduce, rows, along = (list[Any]() for _ in range(5))
    for n, (loop, letter) in enumerate(zip(loops, kinds(sch, block, loops), strict=True)):
        if letter != "S":
            reduce.append(loop)
            continue
        if n == tile.axis:
            whole, *along = sch.split(loop, [None, tile.vectors, tile.lanes])
        else:
            whole, row = sch.split(loop, [None, tile.rows[n]])
            rows.append(row)
        outer, inner = _drawn(sch, whole)
        tasks.append(outer)
        own.insert(0 if n == tile.axis else len(own), inner)
    sch.reorder(*tasks, *own, *reduce, *rows, *along)
    return [*tasks, *own], reduce, [*rows, *along]


def _drawn(sch: Schedule, loop: Any) -> Sequence[Any]:
    """A loop over tiles as one over tasks and one over the tiles of a task."""
    return sch.split(loop, sch.sample_perfect_tile(loop, n=2, max_innermost_factor=2**30))


def _written_out(sch: Schedule, block: Any, outer: int, width: int | None) -> None:
    """The loops of a tile unrolled, the last one a vector of `width`, or as it is."""
    *rows, last = sch.get_loops(block)[outer:]
    if width is not None and as_int(sch.get(last).extent) != width:
        *more, last = sch.split(last, [None, width])
        rows += more
    for loop in rows:
        sch.unroll(loop)
    sch.vectorize(last)
