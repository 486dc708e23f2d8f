"""RewriteLayout: weights are laid out in the order in which the loops read them.

A parameter that the function's `layout_free_buffers` names is copied to a buffer of that order; the
copy says `meta_schedule.layout_rewrite_preproc`, and `SplitLayoutRewritePreproc` takes it out of
the function, to be done once.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.dlight.looking import PREPROC, layout_free, note, tree
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, leaves
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.analysis import suggest_index_map


class RewriteLayout(Postproc):
    """Buffers without a layout of their own get the loops'."""

    kind = "rewrite-layout"

    def apply(self, sch: Schedule) -> bool:
        """Do it where a map is found and legal; every candidate stays."""
        for buffer in layout_free(sch):
            readers = [b for b in leaves(sch) if _side(sch, b, buffer) is not None]
            if len(readers) == 1 and not note(sch, readers[0], PREPROC):
                self._lay_out(sch, readers[0], buffer)
        return True

    def _lay_out(self, sch: Schedule, block: Any, buffer: Any) -> None:
        node = sch.get(block)
        side = _side(sch, block, buffer)
        load = next(n for n in walk(node.body) if isinstance(n, BufferLoad) and n.buffer is buffer)
        values = tree(sch).realize(node).iter_values
        bound = dict(zip((v.var for v in node.iter_vars), values, strict=True))
        indices = [substitute(x, bound) for x in load.indices]
        loops = [sch.get(x) for x in sch.get_loops(block)]
        found = suggest_index_map(buffer, indices, loops)
        if found is None:
            return

        def step(s: Schedule) -> None:
            copy = s.cache_read(block, side, "global")
            s.transform_layout(block, ("read", side), found)
            s.annotate(copy, PREPROC, True)

        try:
            step(sch.copy())
        except ScheduleError:
            return
        step(sch)


def _side(sch: Schedule, block: Any, buffer: Any) -> int | None:
    """The place of a buffer among what a block reads."""
    reads = [r.buffer for r in sch.get(block).reads]
    return reads.index(buffer) if buffer in reads else None
