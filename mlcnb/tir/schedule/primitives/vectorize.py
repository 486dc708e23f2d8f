"""vectorize: the iterations of a loop become the lanes of a vector.

for i in range(8):     ->     for i in T.vectorized(8):
"""

from __future__ import annotations

from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.primitives.parallel import refuse_carried
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, text_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind


@does(marks=True, near="rfactor decompose_reduction unroll split")
def vectorize(state: State, loop: For) -> Change:
    """Make the iterations of a loop the lanes of a vector.

    Raises:
        ScheduleError: the extent is not a number, or iterations may depend on each other.
    """
    if p.as_int(loop.extent) is None:
        raise state.refusal(
            f"vectorize: {name_of(loop)} has {text_of(loop.extent)} iterations, not a fixed number",
            loop,
            hint="split it by the number of lanes and vectorize the inner loop",
        )
    refuse_carried(state, "vectorize", loop, private=False)
    return state.updated(loop, kind=ForKind.VECTORIZED, thread_binding=None)
