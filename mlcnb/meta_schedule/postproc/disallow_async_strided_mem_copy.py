"""DisallowAsyncStridedMemCopy: no candidates that copy asynchronously what does not lie together.

A block annotated `async_scope` (or in a loop that is a pipeline with asynchronous stages) is one.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.looking import note
from mlcnb.ir.expr import Var
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, leaves
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: what marks copies that run beside the computation, on a block or on a loop around it
ASYNC = ("async_scope", "software_pipeline_async_stages")


class DisallowAsyncStridedMemCopy(Postproc):
    """Asynchronous copies run along the last index on both sides."""

    kind = "disallow-async-strided-mem-copy"

    def apply(self, sch: Schedule) -> bool:
        """Whether it is so."""
        return all(
            _is_whole(sch, block)
            for block in leaves(sch)
            if any(
                note(sch, x, k) is not None for x in (block, *sch.get_loops(block)) for k in ASYNC
            )
        )


def _is_whole(sch: Schedule, block: object) -> bool:
    """Whether the innermost axis of a copy is the last index of what it reads and writes."""
    node = sch.get(block)
    inside = list(walk(node.body))
    stores = [n for n in inside if isinstance(n, BufferStore)]
    loads = [n for n in inside if isinstance(n, BufferLoad)]
    if len(stores) != 1 or stores[0].value not in loads:
        return True  # it computes: it is no copy
    ends: list[Any] = [stores[0], stores[0].value]
    last = [next((n for n in walk(x.indices[-1]) if isinstance(n, Var)), None) for x in ends]
    return last[0] is not None and last[0] is last[1]
