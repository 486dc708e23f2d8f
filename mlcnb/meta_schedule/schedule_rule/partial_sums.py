"""Sums of few results, taken in parts that run side by side: along an axis of their own, or by the
threads of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.dlight.looking import is_touched, kinds, wants_partial_sums
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.schedule import Schedule


class AddRFactor(ScheduleRule):
    """Both halves of a split reduction as the axis of the parts, beside the block as it is.

        for i, k in T.grid(4, 4096):      for i, k0, k1 in T.grid(4, 64, 64):
            B[i] += A[i, k]           ->      B_rf[k1, i] += A[i, k0 * 64 + k1]
                                          for i, k1 in T.grid(4, 64):
                                              B[i] += B_rf[k1, i]

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
        made = [tried(sch, lambda s, n=axis: self._factor(s, block, n)) for axis in (1, 0)]
        return [*(x for x in made if x is not None), sch]

    def _factor(self, sch: Schedule, block: Any, axis: int) -> None:
        whole = _summed(sch, block)
        most = self.max_innermost_factor or 2**30
        factors = sch.sample_perfect_tile(whole, n=2, max_innermost_factor=most)
        parts = sch.rfactor(sch.split(whole, factors)[axis], factor_axis=0)
        sch.annotate(parts, "meta_schedule.random_compute_producer", 1)


class CrossThreadReduction(ScheduleRule):
    """Reductions with fewer results than the GPU has threads, in two ways: the threads of a block
    sum up one result together, and as they are.

        for i, k in T.grid(64, 4096):      for i, k0 in T.grid(64, 16):
            B[i] += A[i, k]            ->      for k1 in T.thread_binding(256, "threadIdx.x"):
                                                   B[i] += A[i, k0 * 256 + k1]

    Args:
        thread_extents: how many threads may share a result.
    """

    kind = "cross-thread-reduction"
    thread_extents: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512)

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule with the reduction spread over threads, and without."""
        if is_touched(sch, block) or not wants_partial_sums(sch, block, 1 << 16):
            return [sch]
        made = tried(sch, lambda s: self._spread(s, block))
        return [sch] if made is None else [made, sch]

    def _spread(self, sch: Schedule, block: Any) -> None:
        extents = list(self.thread_extents)
        threads = sch.sample_categorical(extents, [1 / len(extents)] * len(extents))
        _, inner = sch.split(_summed(sch, block), [None, threads])
        sch.bind(inner, "threadIdx.x")


def _summed(sch: Schedule, block: Any) -> Any:
    """The loops over reduce axes as one, innermost."""
    loops, letters = sch.get_loops(block), kinds(sch, block)
    spatial = [x for x, k in zip(loops, letters, strict=True) if k == "S"]
    reduce = [x for x, k in zip(loops, letters, strict=True) if k == "R"]
    sch.reorder(*spatial, *reduce)
    return sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
