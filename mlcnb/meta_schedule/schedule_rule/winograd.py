"""Winograd: convolutions of 3 x 3 windows by tiles of 4 x 4 results, and directly.

Y[n, f, y, x] += X[n, c, y + r, x + q] * W[f, c, r, q]      ->      sch.winograd("Y", 4)

The transforms are laid as they are best (`mlcnb.dlight.cpu.winograd_stages`); the products between
them are tiled in registers, and of these tiles the ones around are drawn. Results are equal up to
rounding.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from mlcnb.dlight.cpu.winograd_stages import may_be_tiles, winograd_stages
from mlcnb.meta_schedule.schedule_rule.register_tiling import RegisterTiling
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.schedule import Schedule


class Winograd(ScheduleRule):
    """Convolutions with enough channels; the schedule as it was comes last.

    Args:
        tile_size: results of a tile in each direction.
        tiling: how the products are tiled.
    """

    kind = "winograd"
    tile_size: int = 4
    tiling: RegisterTiling = field(default_factory=lambda: RegisterTiling(max_tiles=6))

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.tiling = self.tiling.clone()
        self.tiling.initialize_with_tune_context(context)

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """A schedule for each tiling of the products, and the schedule as it was."""
        if not may_be_tiles(sch, block):
            return [sch]
        products: list[Any] = []
        made = tried(
            sch,
            lambda s: products.append(winograd_stages(s, block, self.tile_size, self.target)),
        )
        return [sch] if made is None else [*self.tiling.apply(made, products[0]), sch]
