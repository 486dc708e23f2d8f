"""parallel: the iterations of a loop run on the threads of the machine, in any order.

for i in range(64):     ->     for i in T.parallel(64):

Legal where no iteration touches what another one writes; a buffer that every iteration fills
before it
reads it does not count, for each gets its own.
"""

from __future__ import annotations

from mlcnb.tir.schedule.legality.dependence import why_carried
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind

REDUCTION_HINT = "rfactor the loop first, or choose a spatial loop"


@does(marks=True, near="rfactor decompose_reduction unroll split")
def parallel(state: State, loop: For) -> Change:
    """Run the iterations of a loop in parallel.

    The extent may be symbolic: independence is proved for all sizes.

    Raises:
        ScheduleError: iterations may depend on each other.
    """
    refuse_carried(state, "parallel", loop, private=True)
    return state.updated(loop, kind=ForKind.PARALLEL, thread_binding=None)


def refuse_carried(
    state: State, primitive: str, loop: For, private: bool, threads: bool = False
) -> None:
    """Refuse a loop that carries a dependence; arguments as of `why_carried`."""
    reason = why_carried(state.tree, loop, private, threads) if state.checks else None
    hint = REDUCTION_HINT if "reduce axis" in (reason or "") else None
    state.refuse_for(reason, f"{primitive}: {name_of(loop)} is not parallel", loop, hint)
