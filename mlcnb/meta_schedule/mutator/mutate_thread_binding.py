"""MutateThreadBinding: blocks of more or fewer threads."""

from __future__ import annotations

import numpy as np

from mlcnb.meta_schedule.mutator.mutation import Mutator, another, drawn, users
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.trace import Trace


class MutateThreadBinding(Mutator):
    """A draw that a split is told whose part is bound to `threadIdx.x`."""

    kind = "mutate-thread-binding"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number of threads drawn."""
        found = [i for i in drawn(trace, "sample_categorical") if _is_threads(trace, i)]
        return another(trace, found[int(rng.integers(len(found)))], rng) if found else None


def _is_threads(trace: Trace, inst: Instruction) -> bool:
    for split in users(trace, inst):
        if split.name == "split" and any(
            u.name == "bind" and u.arguments.get("thread_axis") == "threadIdx.x"
            for u in users(trace, split)
        ):
            return True
    return False
