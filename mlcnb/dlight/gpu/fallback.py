"""fallback: a thread for each element of a result; it reduces by itself.

for i, j, k in T.grid(64, 64, 32):            for i_j_0 in T.thread_binding(16, "blockIdx.x"):
    C[i, j] += A[i, k] * B[k, j]       ->         for i_j_1 in T.thread_binding(256, "threadIdx.x"):
for i, j in T.grid(64, 64):                           c[0] = 0
    D[i, j] = max(C[i, j], 0)                         for k in range(32): c[0] += …
                                                      D[…] = max(c[0], 0)

Elementwise blocks are computed where they are read; a reduction that one block reads element by
element is computed there, in a register. What lies side by side in every buffer is moved as
vectors.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.threads import folded, lanes_of, loops_by_kind, on_elements
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


def fallback(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Every block on threads of its own; always applies."""
    blocks = folded(sch, survey)
    finished: set[str] = set()
    for block, reader in zip(blocks, [*blocks[1:], None], strict=True):
        if block.name in finished:
            continue
        together = [block]
        if len(sch.get_loops(block.handle)) != len(block.kinds) or set(block.kinds) - {"S", "R"}:
            _alone(sch, block)
        else:
            spatial, reduced = loops_by_kind(sch, block)
            if not spatial:
                spatial = [sch.add_unit_loop(reduced[0] if reduced else block.handle)]
            sch.reorder(*spatial, *reduced)
            if reader is not None and _finishes(sch, block, reader, spatial[-1]):
                finished.add(reader.name)
                together.append(reader)
            on_elements(sch, spatial, target, lanes_of(block) if len(together) == 1 else 1)
            if block.is_reduction:
                sch.decompose_reduction(block.handle, reduced[0])
        _keep(sch, block, [b for b in blocks if b not in together])
    return True


def _alone(sch: Schedule, block: BlockInfo) -> None:
    """Statements over whole buffers are done by one thread."""
    loops = sch.get_loops(block.handle)
    loop = sch.add_unit_loop(loops[0] if loops else block.handle)
    blocks, thread = sch.split(loop, [1, 1])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")


def _finishes(sch: Schedule, block: BlockInfo, reader: BlockInfo, loop: Any) -> bool:
    """Do with each element that is reduced what its only reader does with it."""
    if not block.is_reduction or reader.is_reduction or block.spatial() != reader.extents:
        return False
    if len(sch.get_consumers(block.handle)) != 1:
        return False
    try:
        sch.reverse_compute_at(reader.handle, loop)
    except ScheduleError:
        return False
    return True


def _keep(sch: Schedule, block: BlockInfo, others: list[BlockInfo]) -> None:
    """What no other kernel sees of a block's results is a thread's own."""
    func: Any = sch.mod[sch.func_working_on]
    seen = {r.buffer for other in others for r in (*other.node.reads, *other.node.writes)}
    for number, region in enumerate(block.node.writes):
        if region.buffer not in seen and region.buffer not in func.buffer_map.values():
            sch.set_scope(block.handle, number, "local")
    _keep_inside(sch, block.handle)


def _keep_inside(sch: Schedule, handle: Any) -> None:
    """What a block, or one inside of it, allocates is a thread's own."""
    for buffer in sch.get(handle).alloc_buffers:
        sch.set_scope(handle, buffer, "local")
    for inner in sch.get_child_blocks(handle):
        _keep_inside(sch, inner)
