"""AddRFactor: sums of few results are taken in parts, which run side by side.

for i, k in T.grid(4, 4096):      for i, k0, k1 in T.grid(4, 64, 64):
    B[i] += A[i, k]           ->      B_rf[k1, i] += A[i, k0 * 64 + k1]
                                  for i, k1 in T.grid(4, 64):
                                      B[i] += B_rf[k1, i]
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import kinds, wants_partial_sums
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule
from mlcnb.tir.schedule import Schedule


class AddRFactor(ScheduleRule):
    """Both halves of a split reduction as the axis of the parts, beside the block as it is.

    Args:
        max_jobs_per_core: fewer results than this for each core want parts.
        max_innermost_factor: the largest inner half; None: any.
    """

    kind = "add-rfactor"
    max_jobs_per_core: int = 16
    max_innermost_factor: int | None = 64

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedules with parts along the inner half, the outer half, and without."""
        if not wants_partial_sums(sch, block, self.target.num_cores * self.max_jobs_per_core):
            return [sch]
        found = [made for axis in (1, 0) if (made := self._factored(sch.copy(), block, axis))]
        return [*found, sch]

    def _factored(self, sch: Schedule, block: Any, axis: int) -> Schedule | None:
        loops = sch.get_loops(block)
        letters = kinds(sch, block)
        spatial = [x for x, k in zip(loops, letters, strict=True) if k == "S"]
        reduce = [x for x, k in zip(loops, letters, strict=True) if k == "R"]
        try:
            sch.reorder(*spatial, *reduce)
            whole = sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
            most = self.max_innermost_factor or 2**30
            factors = sch.sample_perfect_tile(whole, n=2, max_innermost_factor=most)
            halves = sch.split(whole, factors)
            parts = sch.rfactor(halves[axis], factor_axis=0)
            sch.annotate(parts, "meta_schedule.random_compute_producer", 1)
        except ScheduleError:
            return None
        return sch
