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

from collections.abc import Sequence
from typing import Any

from mlcnb.codegen.cuda.host import why_unbound
from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.threads import folded, lanes_of, loops_by_kind, on_elements
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule import Schedule


def fallback(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Every block on threads of its own."""
    blocks = folded(sch, survey, is_strict=False)
    left = blocks
    while left:
        done = _spread(sch, left, target)
        left = left[len(done) :]
        _keep(sch, done[0], [b for b in blocks if b not in done])
    return _is_bound(sch)


def fallback_in_parts(sch: Schedule, survey: Survey, target: Target) -> Schedule | bool:
    """As `fallback`; a block that cannot be spread is done by one thread."""
    left = blocks = folded(sch, survey, is_strict=False)
    while left:
        trial = sch.copy()
        try:
            done = _spread(trial, left, target)
        except ScheduleError:
            trial, done = sch.copy(), left[:1]
            _alone(trial, left[0])
        sch, left = trial, left[len(done) :]
        _keep(sch, done[0], [b for b in blocks if b not in done])
    return sch if _is_bound(sch) else False


def _is_bound(sch: Schedule) -> bool:
    """True if all work is on threads, and what each of them has is of a known size."""
    func: Any = sch.mod[sch.func_working_on]
    unbound = why_unbound(func)
    return True if unbound is None else no(unbound[0])


def _spread(sch: Schedule, blocks: list[BlockInfo], target: Target) -> list[BlockInfo]:
    """Give the first of some blocks to threads, with its reader where that finishes what it does;
    those that are done.
    """
    block = blocks[0]
    if len(sch.get_loops(block.handle)) != len(block.kinds) or set(block.kinds) - {"S", "R"}:
        _alone(sch, block)
        return [block]
    done = [block]
    spatial, reduced = loops_by_kind(sch, block)
    if not spatial:
        spatial = [sch.add_unit_loop(reduced[0] if reduced else block.handle)]
    sch.reorder(*spatial, *reduced)
    if len(blocks) > 1 and _finishes(sch, block, blocks[1], spatial[-1]):
        done.append(blocks[1])
    on_elements(sch, spatial, target, lanes_of(block) if len(done) == 1 else 1)
    if block.is_reduction:
        sch.decompose_reduction(block.handle, reduced[0])
    return done


def _alone(sch: Schedule, block: BlockInfo) -> None:
    """Statements over whole buffers are done by one thread."""
    loops = sch.get_loops(block.handle)
    if any(sch.get(loop).thread_binding for loop in loops):
        return  # with one that stands in the same loop
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
        if region.buffer not in {*seen, *func.buffer_map.values()}:
            _refuse_open(region.buffer, [side.extent for side in region.region])
            sch.set_scope(block.handle, number, "local")
    _keep_inside(sch, block.handle)


def _keep_inside(sch: Schedule, handle: Any) -> None:
    """What a block, or one inside of it, allocates is a thread's own."""
    for buffer in sch.get(handle).alloc_buffers:
        _refuse_open(buffer, buffer.shape)
        sch.set_scope(handle, buffer, "local")
    for inner in sch.get_child_blocks(handle):
        _keep_inside(sch, inner)


def _refuse_open(buffer: Buffer, sizes: Sequence[PrimExpr]) -> None:
    """Refuse what a thread cannot have for itself: memory of a size that only a run knows."""
    if None in map(as_int, sizes):
        raise ScheduleError(f"the size of {buffer.name}, which each thread needs, is not known")
