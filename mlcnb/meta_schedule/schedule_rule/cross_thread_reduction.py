"""CrossThreadReduction: the threads of a block sum up one result together.

for i, k in T.grid(64, 4096):      for i, k0 in T.grid(64, 16):
    B[i] += A[i, k]            ->      for k1 in T.thread_binding(256, "threadIdx.x"):
                                           B[i] += A[i, k0 * 256 + k1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import is_touched, kinds, wants_partial_sums
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule
from mlcnb.tir.schedule import Schedule


class CrossThreadReduction(ScheduleRule):
    """Reductions with fewer results than the GPU has threads, in two ways: so, and as they are.

    Args:
        thread_extents: how many threads may share a result.
    """

    kind = "cross-thread-reduction"
    thread_extents: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512)

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule with the reduction spread over threads, and without."""
        if is_touched(sch, block) or not wants_partial_sums(sch, block, 1 << 16):
            return [sch]
        made = sch.copy()
        loops = made.get_loops(block)
        letters = kinds(made, block)
        spatial = [x for x, k in zip(loops, letters, strict=True) if k == "S"]
        reduce = [x for x, k in zip(loops, letters, strict=True) if k == "R"]
        extents = list(self.thread_extents)
        try:
            threads = made.sample_categorical(extents, [1 / len(extents)] * len(extents))
            made.reorder(*spatial, *reduce)
            whole = made.fuse(*reduce) if len(reduce) > 1 else reduce[0]
            _, inner = made.split(whole, [None, threads])
            made.bind(inner, "threadIdx.x")
        except ScheduleError:
            return [sch]
        return [made, sch]
