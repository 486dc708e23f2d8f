"""RewriteUnboundBlock: every block of a GPU program runs on threads."""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import tree
from mlcnb.meta_schedule.postproc.postprocessor import Postproc
from mlcnb.meta_schedule.schedule_rule.auto_bind import bind_block
from mlcnb.tir.schedule import Schedule


class RewriteUnboundBlock(Postproc):
    """Blocks that nobody has bound get a thread for each element.

    Args:
        max_threadblocks: blocks of threads at most.
        max_threads_per_block: threads of a block; -1: as the target has them, at most 1024.
    """

    kind = "rewrite-unbound-block"
    max_threadblocks: int = 256
    max_threads_per_block: int = -1

    def apply(self, sch: Schedule) -> bool:
        """Do it; False where the loops of a block cannot be bound."""
        most = self.max_threads_per_block
        threads = 1024 if most < 0 else most
        try:
            for block in sch.get_child_blocks(sch.get_block(tree(sch).root.name_hint)):
                tags = [sch.get(x).thread_binding or "" for x in sch.get_loops(block)]
                if not any(x.startswith("blockIdx") for x in tags):
                    bind_block(sch, block, self.max_threadblocks, [threads])
        except ScheduleError:
            return False
        return True
