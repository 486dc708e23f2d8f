"""rows: reductions along rows, a row for each block, its elements for the threads.

for i, k: m[i] = max(m[i], A[i, k])          for i in T.thread_binding(64, "blockIdx.x"):
for i, j: e[i, j] = exp(A[i, j] - m[i])          for k_0 in range(4):
for i, k: s[i] += e[i, k]               ->           for tx in T.thread_binding(256, "threadIdx.x"):
for i, j: D[i, j] = e[i, j] / s[i]                       m[0] = max(m[0], A[i, k_0 * 256 + tx])
                                                 …

Softmax, normalisations, sums and means: what is between the rows' first reduction and their result
stays in shared memory.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.threads import THREADS, most_threads, product
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.schedule import Schedule

#: rows that are shorter are better reduced by one thread each
SHORT = 32


def rows(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to blocks that share their first axes, with reductions over all the others."""
    first = survey.anchor
    if first is None or set(first.kinds.lstrip("S")) != {"R"}:
        return no("no reduction over all axes but the first ones")
    outer = len(first.spatial())
    reduced = product(first.reduced())
    if outer == 0 or reduced is None:
        return no("one row, or rows of a length that is not known")
    if reduced < SHORT:
        return no(f"rows of {reduced}: under {SHORT} one thread reduces each")
    blocks = [b for b in survey.blocks if not _inlined(sch, b)]
    *middle, last = Survey.of(sch).blocks
    if not blocks or not all(_begins_with(b, first.spatial()) for b in (*middle, last)):
        return no(f"not all blocks go along the rows of {first.name}")
    held = [_bytes_of_a_row(b, outer) for b in middle]
    room = GpuLimits.of(target).max_shared_memory_per_block // 2
    if None in held or sum(held) > room:  # type: ignore[arg-type]
        return no(f"what is kept of a row takes more than {room:,} bytes of shared memory")
    for block in middle:
        sch.set_scope(block.handle, 0, "shared")
    spatial = sch.get_loops(last.handle)[:outer]
    if len(sch.get_loops(last.handle)) == outer and not last.is_reduction:
        sch.add_unit_loop(last.handle)
    row = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    sch.bind(row, "blockIdx.x")
    for block in reversed(middle):
        sch.compute_at(block.handle, row)
    count = min(THREADS, most_threads(target))
    for block in (*middle, last):
        _along(sch, block.handle, 1, count)
    return True


def _inlined(sch: Schedule, block: BlockInfo) -> bool:
    """Compute an elementwise block that one block reads where it is read; True if that was done."""
    if not block.is_spatial or len(sch.get_consumers(block.handle)) != 1:
        return False
    try:
        sch.compute_inline(block.handle)
    except ScheduleError:
        return False
    return True


def _bytes_of_a_row(block: BlockInfo, outer: int) -> int | None:
    """What a block's result takes in shared memory; None where that is not known."""
    sides = [n for n, kind in zip(block.extents[outer:], block.kinds[outer:], strict=True)
             if kind == "S"]  # fmt: skip
    count = product(sides)
    return None if count is None else count * block.node.writes[0].buffer.dtype.nbytes


def _begins_with(block: BlockInfo, extents: list[int | None]) -> bool:
    """True if the first axes of a block are the rows."""
    count = len(extents)
    return block.kinds[:count] == "S" * count and block.extents[:count] == extents


def _along(sch: Schedule, block: Any, outer: int, count: int) -> None:
    """What a block does in a row, for the threads."""
    loops = sch.get_loops(block)[outer:]
    if not loops:
        loops = [sch.add_unit_loop(block)]
    inner = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, threads = sch.split(inner, [None, count])
    sch.bind(threads, "threadIdx.x")
