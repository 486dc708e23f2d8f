"""ParallelizeVectorizeUnroll: how much of it, noted on the root; `RewriteParallelVectorizeUnroll`
does it when the tiles are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.dlight.looking import is_root
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule
from mlcnb.tir.schedule import Schedule

PARALLEL = "meta_schedule.parallel"
VECTORIZE = "meta_schedule.vectorize"
UNROLL = "meta_schedule.unroll_explicit"
UNROLL_IMPLICIT = "meta_schedule.unroll_implicit"


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Notes on the root block.

    Args:
        max_jobs_per_core: tasks for each core; -1: not in parallel.
        max_vectorize_extent: elements of a vector at most; -1: no vectors.
        unroll_max_steps: one of these is drawn: how many steps may be written out.
        unroll_explicit: write loops out here, or leave it to LLVM.
    """

    kind = "parallelize-vectorize-unroll"
    max_jobs_per_core: int = 16
    max_vectorize_extent: int = 16
    unroll_max_steps: Sequence[int] | None = None
    unroll_explicit: bool = True

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule with the notes."""
        if not is_root(sch, block):
            return [sch]
        if self.max_jobs_per_core > 0:
            sch.annotate(block, PARALLEL, self.target.num_cores * self.max_jobs_per_core)
        if self.max_vectorize_extent > 0:
            sch.annotate(block, VECTORIZE, self.max_vectorize_extent)
        steps = list(self.unroll_max_steps or ())
        if steps:
            drawn = sch.sample_categorical(steps, [1 / len(steps)] * len(steps))
            sch.annotate(block, UNROLL if self.unroll_explicit else UNROLL_IMPLICIT, drawn)
        return [sch]
