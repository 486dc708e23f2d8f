"""MultiLevelTilingWithIntrin: tiles around a tile that one instruction computes.

for i, j, k in T.grid(…):         for i0, j0, k0, … in T.grid(…):
    C[i, j] += A[i, k] * …   ->       with T.block("C_o"):      meta_schedule.auto_tensorize = name
                                          for j1, k1 in T.grid(16, 4): C[…] += …

The block is matched by what its iterators index (`auto_tensorize`), padded where it must be.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import note
from mlcnb.meta_schedule.auto_tensorize import TENSORIZE, tile_with_intrin
from mlcnb.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling
from mlcnb.tir.schedule import Schedule


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Blocks that compute what an intrinsic does are tiled around it.

    Args:
        structure, tile_binds, …: see `MultiLevelTiling`.
        intrin_name: of a registered `TensorIntrin`.
    """

    kind = "multi-level-tiling-with-intrin"
    intrin_name: str = "dot_16x4_vnni"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedules with tiles around the intrinsic; `[sch]` where it does not match."""
        if note(sch, block, TENSORIZE) is not None:
            return [sch]
        made = sch.copy()
        try:
            outer = tile_with_intrin(made, block, self.intrin_name, allow_padding=True)
        except ScheduleError:
            return [sch]
        if outer is None:
            return [sch]
        rest = MultiLevelTiling(
            self.structure, self.tile_binds, self.max_innermost_factor, self.vector_load_lens,
            self.reuse_read, self.reuse_write, lambda _sch, _block: True,
        )  # fmt: skip
        rest.context = self.context
        found = rest.apply(made, outer)
        return found if found != [made] else [sch]
