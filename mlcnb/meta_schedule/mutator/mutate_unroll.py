"""MutateUnroll: another number of steps is written out."""

from __future__ import annotations

import numpy as np

from mlcnb.meta_schedule.mutator.mutation import Mutator, another, drawn, users
from mlcnb.tir.schedule.record.trace import Trace


class MutateUnroll(Mutator):
    """The draw that a note `meta_schedule.unroll_…` is told."""

    kind = "mutate-unroll"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another number drawn."""
        found = [
            i
            for i in drawn(trace, "sample_categorical")
            if any(".unroll_" in str(u.arguments.get("ann_key", "")) for u in users(trace, i))
        ]
        return another(trace, found[int(rng.integers(len(found)))], rng) if found else None
