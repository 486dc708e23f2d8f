"""RewriteTensorize: blocks that were tiled for an intrinsic become calls of it."""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.meta_schedule.auto_tensorize import TENSORIZE
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, noted
from mlcnb.tir.schedule import Schedule


class RewriteTensorize(Postproc):
    """Blocks annotated `meta_schedule.auto_tensorize` with the name of an intrinsic.

    Args:
        vectorize_init_loop: starts of such sums (of a tile of the intrinsic) become vectors.
    """

    kind = "rewrite-tensorize"
    vectorize_init_loop: bool = False

    def apply(self, sch: Schedule) -> bool:
        """Do it; False where an intrinsic does not take its tile."""
        try:
            for block, name in noted(sch, TENSORIZE):
                if sch.get(block).name_hint.endswith("_init"):
                    if self.vectorize_init_loop:
                        inner = sch.get_child_blocks(block)
                        loops = sch.get_loops(inner[-1]) if inner else []
                        if loops:
                            sch.vectorize(loops[-1])
                    continue
                sch.tensorize(block, str(name))
        except ScheduleError:
            return False
        return True
