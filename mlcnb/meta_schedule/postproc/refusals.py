"""Postprocessors that only look: which candidates are given up at once."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.dlight.looking import note
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, leaves
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits, verify_gpu_code
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore, For
from mlcnb.tir.transform.lower import lower

#: what marks copies that run beside the computation, on a block or on a loop around it
ASYNC = ("async_scope", "software_pipeline_async_stages")


class DisallowDynamicLoop(Postproc):
    """No candidates with loops of an unknown number of iterations: every extent is a number."""

    kind = "disallow-dynamic-loop"

    def apply(self, sch: Schedule) -> bool:
        """Whether it is so."""
        loops = (n for n in statements(sch.mod[sch.func_working_on].body) if isinstance(n, For))
        return all(as_int(n.extent) is not None for n in loops)


class VerifyGPUCode(Postproc):
    """No candidates that a GPU's blocks, threads or shared memory cannot hold: the lowered program
    keeps the limits of the target.
    """

    kind = "verify-gpu-code"

    def apply(self, sch: Schedule) -> bool:
        """Whether it does; also False where it cannot be lowered."""
        func = sch.mod[sch.func_working_on]
        try:
            return verify_gpu_code(lower(func), GpuLimits.of(self.target))
        except MLCError:
            return False


class DisallowAsyncStridedMemCopy(Postproc):
    """No candidates that copy asynchronously what does not lie together: such copies run along the
    last index on both sides.

    A block annotated `async_scope` (or in a loop that is a pipeline with asynchronous stages) is
    one.
    """

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
