"""MultiLevelTilingTensorCore: products of halves or bytes in tiles of warps, by `mma.sync`.

The steps are those of `dlight.gpu.tensor_cores`; how many fragments a warp holds, and how many
steps of k are fetched together, are draws.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.tensor_cores import SMALL, Tile, tensor_cores
from mlcnb.dlight.looking import is_reduction, is_there
from mlcnb.dlight.survey import Survey
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule
from mlcnb.tir.schedule import Schedule


class MultiLevelTilingTensorCore(ScheduleRule):
    """A product (or convolution) of float16 or bfloat16 that is summed in float32, or of int8 that
    is summed in int32.

    Args:
        tiles: the tiles of a block of threads that are tried.
        tf32: products of float32, too, of which tensor cores keep 11 bits of each operand.
    """

    kind = "multi-level-tiling-tensor-core"
    tiles: tuple[Tile, ...] = (Tile(), SMALL, Tile(rows=2), Tile(columns=2))
    tf32: bool = False

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """A schedule for each tile; `[sch]` where tensor cores do not take the block."""
        if not is_there(sch, block) or not is_reduction(sch, block):
            return [sch]
        found = [made for tile in self.tiles if (made := self._tiled(sch, tile)) is not None]
        return found or [sch]

    def _tiled(self, sch: Schedule, tile: Tile) -> Schedule | None:
        made = sch.copy()
        try:
            took = tensor_cores(made, Survey.of(made), self.target, tile, self.tf32)
            return made if took else None
        except ScheduleError:
            return None
