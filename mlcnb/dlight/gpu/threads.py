"""How rules for GPUs give work to threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.expr import Call, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: threads of a block where nothing else says how many
THREADS = 256
#: what a thread loads or stores at once at most
VECTOR_BYTES = 16


def most_threads(target: Target) -> int:
    """How many threads a block may have."""
    return GpuLimits.of(target).max_threads_per_block


def bytes_of(buffer: Buffer) -> int | None:
    """How large a buffer is; None where only a run knows."""
    sizes = [size for n in buffer.shape if (size := as_int(n)) is not None]
    return math.prod(sizes) * buffer.dtype.nbytes if len(sizes) == len(buffer.shape) else None


def copies_asynchronously(target: Target) -> bool:
    """Whether a GPU has `cp.async`, and products of halves of 16 x 8 x 16: since sm_80."""
    return GpuLimits.of(target).arch >= 80


def on_elements(sch: Schedule, loops: Sequence[Any], target: Target, lanes: int = 1) -> Any:
    """Independent loops, fused: a thread for each round. The loop over the threads of a block.

    lanes: rounds that a thread does at once, as a vector; their number is a multiple of it.
    """
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes > 1:
        fused, vector = sch.split(fused, [None, lanes])
        sch.vectorize(vector)
    extent = as_int(sch.get(fused).extent)
    count = min(THREADS, most_threads(target))
    if extent is not None and extent < count:
        count = max(1, extent)
    blocks, threads = sch.split(fused, [None, count])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    return threads


def lanes_of(block: BlockInfo) -> int:
    """Elements of an elementwise block that one thread moves at once: 16 bytes of the widest dtype,
    where they lie side by side in every buffer; else 1.
    """
    store = block.node.body
    if not isinstance(store, BufferStore) or not block.is_spatial or None in block.extents:
        return 1
    last, length = block.node.iter_vars[-1].var, block.extents[-1] or 0
    loads = [n for n in walk(store.value) if isinstance(n, BufferLoad)]
    places: list[Any] = [store, *loads]
    lanes = VECTOR_BYTES // max(x.buffer.dtype.nbytes for x in places)
    work = block.work
    if lanes < 2 or length % lanes or work < lanes * THREADS:
        return 1
    if any(isinstance(n, Call) and n.op == "tir.if_then_else" for n in walk(store.value)):
        return 1
    return lanes if all(_is_in_rows(x, last, lanes) for x in places) else 1


def _is_in_rows(x: Any, last: Var, lanes: int) -> bool:
    """True if the last axis is the last index of an access, or none."""
    uses = [any(n is last for n in walk(i)) for i in x.indices]
    if not any(uses):
        return isinstance(x, BufferLoad)
    rows = as_int(x.buffer.shape[-1])
    return not any(uses[:-1]) and x.indices[-1] is last and rows is not None and rows % lanes == 0


def folded(sch: Schedule, survey: Survey, is_strict: bool = True) -> list[BlockInfo]:
    """What is left when elementwise blocks are computed inside of the one block that reads them.

    is_strict: one of which that is refused is an error; else it stays.
    """
    for block in survey.blocks[:-1]:
        if block.is_spatial and len(sch.get_consumers(block.handle)) == 1:
            try:
                sch.compute_inline(block.handle)
            except ScheduleError:
                if is_strict:
                    raise
    return Survey.of(sch).blocks


def loops_by_kind(sch: Schedule, block: BlockInfo) -> tuple[list[Any], list[Any]]:
    """The loops of a block that nobody has touched: over spatial axes, and over reduce axes."""
    loops = sch.get_loops(block.handle)
    pairs = list(zip(loops, block.kinds, strict=True))
    return [x for x, kind in pairs if kind == "S"], [x for x, kind in pairs if kind != "S"]


def product(extents: Sequence[int | None]) -> int | None:
    """All extents together; None where one is not known."""
    return None if None in extents else math.prod(extents)  # type: ignore[arg-type]
