"""How rules for GPUs give work to threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.schedule import Schedule

#: threads of a block where nothing else says how many
THREADS = 256


def most_threads(target: Target) -> int:
    """How many threads a block may have."""
    return GpuLimits.of(target).max_threads_per_block


def on_elements(sch: Schedule, loops: Sequence[Any], target: Target) -> Any:
    """Independent loops, fused: a thread for each round. The loop over the threads of a block."""
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = as_int(sch.get(fused).extent)
    count = min(THREADS, most_threads(target))
    if extent is not None and extent < count:
        count = max(1, extent)
    blocks, threads = sch.split(fused, [None, count])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    return threads


def folded(sch: Schedule, survey: Survey) -> list[BlockInfo]:
    """What is left when elementwise blocks are computed inside of the one block that reads them."""
    for block in survey.blocks[:-1]:
        if block.is_spatial and len(sch.get_consumers(block.handle)) == 1:
            sch.compute_inline(block.handle)
    return Survey.of(sch).blocks


def loops_by_kind(sch: Schedule, block: BlockInfo) -> tuple[list[Any], list[Any]]:
    """The loops of a block that nobody has touched: over spatial axes, and over reduce axes."""
    loops = sch.get_loops(block.handle)
    pairs = list(zip(loops, block.kinds, strict=True))
    return [x for x, kind in pairs if kind == "S"], [x for x, kind in pairs if kind != "S"]


def product(extents: Sequence[int | None]) -> int | None:
    """All extents together; None where one is not known."""
    return None if None in extents else math.prod(extents)  # type: ignore[arg-type]
