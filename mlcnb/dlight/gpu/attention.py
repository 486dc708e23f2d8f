"""attention: softmax(Q K^T) V as one kernel; the scores of a block's queries never leave it.

scores of all queries and all keys              for b, n, i_0 in blocks:          up to 8 queries
softmax of all scores                     ->        scores, max, exp, sum         in shared memory
sum over all keys                                   out[…] = sum of exp * V       threads in rows

A warp reduces a query's scores (shuffles); all threads take a part of what is done element by
element. The keys are not cut (the online softmax of flash attention): as many as fit beside their
exponentials into shared memory, some thousands; more are left to the other rules.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu.attention import STAGES, is_attention
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import BlockInfo, Survey, loop_kinds
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.schedule import Schedule

#: queries of a block at most, threads that share one of them
QUERIES, LANES = 8, 32


def attention(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to the blocks of nn.attention, all sizes known."""
    whole = next((b for b in survey.blocks if b.name == "attention"), None)
    after = [] if whole is None else survey.after(whole)
    info = {b.name.removeprefix("attention_"): b for b in survey.blocks if b not in after}
    if whole is None or not is_attention(info, 1):
        return no("no attention: it takes the blocks of nn.attention, all sizes known")
    if not survey.keeps_shape(whole):
        return no("what follows the attention is not done element by element")
    length = info["sum"].spatial()[2] or 1
    row = sum(_bytes_of_a_query(name, block) for name, block in info.items())
    room = GpuLimits.of(target).max_shared_memory_per_block // row
    if room < 1:
        return no(f"what one query keeps takes {row:,} bytes, more shared memory than a block has")
    count = max(n for n in range(1, min(QUERIES, room) + 1) if length % n == 0)
    blocks = {name: block.handle for name, block in info.items()}
    for block in after:  # what is done with each result is done before it is stored
        sch.compute_inline(blocks["attention"])
        blocks["attention"] = block.handle
    sch.compute_inline(blocks.pop("inverse"))
    stages = [s for s in STAGES if s in blocks]
    for name in stages:
        sch.set_scope(blocks[name], 0, "shared")
    sums = {name: blocks[name] for name in ("scores", "sum")}  # in registers
    blocks |= {name: sch.cache_write(block, 0, "local") for name, block in sums.items()}
    b, n, i, *_ = sch.get_loops(blocks["sum"])
    i_0, _ = sch.split(i, [None, count])
    sch.reverse_compute_at(blocks["attention"], i_0, preserve_unit_loops=True)
    for name in reversed(stages):
        moved = [] if name == "sum" else [blocks[name]]
        for block in (*moved, *([sums[name]] if name in sums else [])):
            sch.compute_at(block, i_0, preserve_unit_loops=True)
    for name in (*stages, "attention"):
        _on_threads(sch, blocks[name], name, count, sums.get(name))
    for loop, place in ((i_0, "blockIdx.x"), (n, "blockIdx.y"), (b, "blockIdx.z")):
        sch.bind(loop, place)
    return True


def _bytes_of_a_query(name: str, block: BlockInfo) -> int:
    """What a stage keeps of one query in shared memory."""
    if name in ("attention", "inverse"):
        return 0
    extents = block.spatial()
    found = extents[3 if name == "sum" else 2] if len(extents) > 3 else 1
    return 4 * (found or 1)


def _on_threads(sch: Schedule, block: Any, name: str, count: int, summed: Any) -> None:
    """What a stage does for a block's queries, in rows of threads; summed: what it is the sum of,
    by each thread for itself.
    """
    loops = sch.get_loops(block)[3:]
    kinds = loop_kinds(sch, block, loops)
    spatial = [x for x, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [x for x, kind in zip(loops, kinds, strict=True) if kind == "R"]
    sch.reorder(*spatial, *reduced)
    each = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    if name in ("max", "norm"):
        (keys,) = reduced
        _, lanes = sch.split(keys, [None, LANES])
        _, rows = sch.split(each, [None, count])
    else:
        _, rows, lanes = sch.split(each, [None, count, LANES])
    if summed is not None:
        sch.compute_at(summed, lanes)
        sch.decompose_reduction(summed, sch.get_loops(summed)[-1])
    sch.bind(rows, "threadIdx.y")
    sch.bind(lanes, "threadIdx.x")
