"""RewriteCooperativeFetch: the copies to shared memory are made by all threads of a block.

for f in range(4096):             for f_0 in range(…):
    A_shared[…] = A[…]      ->        for f_1 in T.thread_binding(128, "threadIdx.x"):
                                          for f_2 in T.vectorized(4): A_shared[…] = A[…]
"""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import extent, thread_extent
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, noted
from mlcnb.meta_schedule.schedule_rule.multi_level_tiling import COOPERATIVE
from mlcnb.tir.schedule import Schedule


class RewriteCooperativeFetch(Postproc):
    """Blocks annotated `meta_schedule.cooperative_fetch` with the elements of a load."""

    kind = "rewrite-cooperative-fetch"

    def apply(self, sch: Schedule) -> bool:
        """Do it; False where a step is refused."""
        across, up = thread_extent(sch, "threadIdx.x"), thread_extent(sch, "threadIdx.y")
        try:
            for block, length in noted(sch, COOPERATIVE):
                fused = sch.get_loops(block)[-1]
                size = extent(sch, fused)
                vector = int(length)
                whole = vector > 1 and size is not None and size % (vector * (across or 1)) == 0
                axes = [("threadIdx.y", up), ("threadIdx.x", across)]
                bound = [(tag, n) for tag, n in axes if n is not None]
                factors = [None, *(n for _, n in bound), *([vector] if whole else [])]
                _, *parts = sch.split(fused, factors)
                for (tag, _), part in zip(bound, parts, strict=False):
                    sch.bind(part, tag)
                if whole:
                    sch.vectorize(parts[-1])
        except ScheduleError:
            return False
        return True
