"""MutateParallel: more or fewer tasks."""

from __future__ import annotations

import numpy as np

from mlcnb.meta_schedule.mutator.mutation import Mutator
from mlcnb.meta_schedule.schedule_rule.parallelize_vectorize_unroll import PARALLEL
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.trace import Trace


class MutateParallel(Mutator):
    """The note `meta_schedule.parallel`.

    Args:
        max_jobs_per_core: tasks for each core at most.
    """

    kind = "mutate-parallel"
    max_jobs_per_core: int = 16

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number of tasks in the note."""
        kept = trace.simplified(remove_postproc=True).insts
        notes = [i for i in kept if i.arguments.get("ann_key") == PARALLEL]
        if not notes:
            return None
        now = int(notes[0].arguments["ann_val"])
        wanted = [self.target.num_cores * n for n in range(1, self.max_jobs_per_core + 1)]
        wanted = [n for n in wanted if n != now]
        if not wanted:
            return None
        told = {**notes[0].arguments, "ann_val": int(rng.choice(wanted))}
        new = Instruction.of(notes[0].name, told, notes[0].outputs, None)
        return Trace(new if i is notes[0] else i for i in kept)
