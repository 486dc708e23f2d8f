"""RewriteReductionBlock: the start of a reduction goes before the loops that sum up.

for i, j in T.grid(…):                    for i, j in T.grid(…):
    for k, i1, j1 in T.grid(…):               for i1, j1 in T.grid(…): C_init
        C (init, update)            ->        for k, i1, j1 in T.grid(…): C_update
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import kinds
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, leaves
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import ForKind


class RewriteReductionBlock(Postproc):
    """Every reduction is decomposed at the first loop that is not spatial."""

    kind = "rewrite-reduction-block"

    def apply(self, sch: Schedule) -> bool:
        """Do it; False where a step is refused."""
        for block in [b for b in leaves(sch) if sch.get(b).init is not None]:
            loop = self._first(sch, block)
            if loop is None:
                continue
            try:
                sch.decompose_reduction(block, loop)
            except ScheduleError:
                return False
        return True

    def _first(self, sch: Schedule, block: Any) -> Any:
        """The first loop that runs over a reduce axis; None where threads share the sum."""
        loops = sch.get_loops(block)
        for loop, letter in zip(loops, kinds(sch, block, loops) if loops else "", strict=True):
            if letter != "S":
                shared = sch.get(loop).kind is ForKind.THREAD_BINDING
                return None if shared or _is_shared_below(sch, loops, loop) else loop
        return None


def _is_shared_below(sch: Schedule, loops: list[Any], first: Any) -> bool:
    """Whether a thread runs over a part of the reduction: its steps are added by a shuffle."""
    inner = loops[loops.index(first) :]
    return any(
        sch.get(x).kind is ForKind.THREAD_BINDING
        for x, k in zip(inner, kinds(sch, sch.get_child_blocks(inner[-1])[0], inner), strict=True)
        if k != "S"
    )
