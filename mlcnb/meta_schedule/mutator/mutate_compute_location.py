"""MutateComputeLocation: a block is computed at another loop of its consumer."""

from __future__ import annotations

import numpy as np

from mlcnb.meta_schedule.mutator.mutation import Mutator, drawn
from mlcnb.tir.schedule.record.trace import Trace

#: places: inline, where it stands, and as many loops as a nest may have
INLINE, DEEPEST = -2, 12


class MutateComputeLocation(Mutator):
    """One draw of `sample_compute_location`; a place that is not legal becomes the next outer."""

    kind = "mutate-compute-location"

    def changed(self, trace: Trace, rng: np.random.Generator) -> Trace | None:
        """The trace with another place drawn."""
        places = drawn(trace, "sample_compute_location")
        if not places:
            return None
        inst = places[int(rng.integers(len(places)))]
        others = [n for n in range(INLINE, DEEPEST) if n != int(inst.decision)]
        return trace.with_decision(inst, int(rng.choice(others)), True)
