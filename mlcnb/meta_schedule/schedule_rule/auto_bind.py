"""AutoBind: a block that no thread runs yet gets a thread for each element.

for i, j in T.grid(64, 64):     for b in T.thread_binding(32, "blockIdx.x"):
    B[i, j] = …             ->      for t in T.thread_binding(128, "threadIdx.x"):
                                        B[(b * 128 + t) // 64, (b * 128 + t) % 64] = …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.looking import extent, is_root, kinds
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import ForKind


class AutoBind(ScheduleRule):
    """Outer spatial loops become threads.

    Args:
        max_threadblocks: blocks at most; what is left is a loop in each thread.
        thread_extents: threads of a block: one of these is drawn.
        max_threads_per_block: larger ones are left out; -1: none is.
    """

    kind = "auto-bind"
    max_threadblocks: int = 256
    thread_extents: Sequence[int] = (32, 64, 128, 256, 512, 1024)
    max_threads_per_block: int = -1

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule with the block on threads."""
        if is_root(sch, block):
            return [sch]
        most = self.max_threads_per_block
        extents = [x for x in self.thread_extents if most < 0 or x <= most]
        return [tried(sch, lambda s: bind_block(s, block, self.max_threadblocks, extents)) or sch]


def bind_block(sch: Schedule, block: Any, blocks: int, extents: Sequence[int]) -> bool:
    """Bind the outer spatial loops of a block; whether there was anything to bind.

    Args:
        sch: the schedule.
        block: one of its blocks.
        blocks: thread blocks at most.
        extents: threads of a block: the first that is large enough, or one that is drawn.

    Raises:
        ScheduleError: its loops cannot be fused or bound.
    """
    loops = sch.get_loops(block)
    letters = kinds(sch, block)
    if any((sch.get(x).thread_binding or "")[:8] in ("blockIdx", "threadId") for x in loops):
        return _finish(sch, loops, extents)
    free = 0
    while free < len(loops) and letters[free] == "S" and _is_alone(sch, loops, free):
        free += 1
    if not free:
        loops = [sch.add_unit_loop(loops[0] if loops else block), *loops]
        free = 1
    whole = sch.fuse(*loops[:free]) if free > 1 else loops[0]
    size = extent(sch, whole)
    if size is None or not extents:
        raise ScheduleError("AutoBind: the number of elements is not known")
    if len(extents) > 1:
        threads: Any = sch.sample_categorical(list(extents), [1 / len(extents)] * len(extents))
    else:
        threads = min(extents[0], size)
    if size <= blocks * int(sch.get(threads)):
        outer, inner = sch.split(whole, [None, threads])
    else:
        rest, outer, inner = sch.split(whole, [None, blocks, threads])
        sch.reorder(outer, inner, rest)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return True


def _is_alone(sch: Schedule, loops: Sequence[Any], at: int) -> bool:
    """Whether a serial loop holds nothing but the next one (or the block)."""
    loop = sch.get(loops[at])
    return loop.kind is ForKind.SERIAL and len(sch.get_child_blocks(loops[at])) == 1


def _finish(sch: Schedule, loops: Sequence[Any], extents: Sequence[int]) -> bool:
    """Threads without a block of threads get one: the outer spatial loops."""
    tags = [sch.get(x).thread_binding or "" for x in loops]
    if any(x.startswith("blockIdx") for x in tags):
        return False
    first = next(n for n, x in enumerate(tags) if x.startswith("threadIdx"))
    outer = [x for x in loops[:first] if sch.get(x).kind is ForKind.SERIAL]
    letters = kinds(sch, sch.get_child_blocks(loops[-1])[0], outer) if outer else ""
    spatial = [x for x, k in zip(outer, letters, strict=True) if k == "S"]
    if not spatial:
        sch.bind(sch.add_unit_loop(loops[0]), "blockIdx.x")
    else:
        sch.bind(sch.fuse(*spatial) if len(spatial) > 1 else spatial[0], "blockIdx.x")
    return True
