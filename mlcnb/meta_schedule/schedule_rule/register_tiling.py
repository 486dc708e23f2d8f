"""RegisterTiling: tiles of results that stay in registers for the whole of a sum.

for i, j, k in T.grid(…):     for i0, j0, j1, i1 in T.grid(…):       drawn: tasks, and their tiles
    C[i, j] += …          ->      acc = 0                            6 x 2 vectors, in registers
                                  for k: for i2, j2, lane: acc += A[i, k] * packed B[k, j]
                                  C[…] = acc

The cheapest tiles of `mlcnb.dlight.register_tiles`; each is a schedule of its own, of which only
the tiles around it are draws.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.looking import reuses
from mlcnb.dlight.register_tiles import Summed, Tile, tiled
from mlcnb.meta_schedule.schedule_rule.multi_level_tiling import STRUCTURE
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: tiles that are tried, by the cost of the cheapest
CLOSE = 1.25


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
        if summed is None or summed.open:  # what is drawn divides a known size
            return found
        count: dict[Any, int] = {}
        tiles = summed.tiles(self.target, lanes)
        for tile in (t for t in tiles if t.cost <= CLOSE * tiles[0].cost):
            which = tile.axis, tile.packed
            if count.get(which, 0) >= self.max_of_a_kind:
                continue
            made = tried(sch, lambda s, tile=tile: _around(s, block, summed, tile))
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


def _around(sch: Schedule, block: Any, summed: Summed, tile: Tile) -> None:
    sch.annotate(block, STRUCTURE, "SSRS")
    tiled(sch, block, summed, tile)
