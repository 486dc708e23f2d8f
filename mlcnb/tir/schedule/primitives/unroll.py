"""unroll: a loop whose iterations are written out one after the other.

for i in range(4):     ->     for i in T.unroll(4):
"""

from __future__ import annotations

from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind


@does(still=True)
def unroll(state: State, loop: For) -> Change:
    """Mark a loop as unrolled. The order of iterations stays, so this is always legal.

    Code is unrolled where the extent is a number.
    """
    return state.updated(loop, kind=ForKind.UNROLLED, thread_binding=None)
