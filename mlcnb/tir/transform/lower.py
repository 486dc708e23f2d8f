"""The standard lowering, one step after the other, each a pass that prints.

lower(func)                  the lowered function
lower(func, steps=True)      [(name, function, seconds), …]: what each pass made of it
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.compact_buffer import compact_buffers
from mlcnb.tir.transform.convert_blocks_to_opaque import convert_blocks_to_opaque
from mlcnb.tir.transform.flatten_buffer import flatten_buffers
from mlcnb.tir.transform.loop_partition import partition_loops
from mlcnb.tir.transform.lower_init_block import lower_init_block
from mlcnb.tir.transform.lower_match_buffer import lower_match_buffer
from mlcnb.tir.transform.lower_opaque_block import lower_opaque_block
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation
from mlcnb.tir.transform.simplify import simplify_stmt
from mlcnb.tir.transform.unroll_loop import unroll_loops
from mlcnb.tir.transform.vectorize_loop import vectorize_loops

#: the passes in order, by TVM's names
STEPS: tuple[tuple[str, Callable[[PrimFunc], PrimFunc]], ...] = (
    ("LowerInitBlock", lower_init_block),
    ("PlanAndUpdateBufferAllocationLocation", plan_buffer_allocation),
    ("ConvertBlocksToOpaque", convert_blocks_to_opaque),
    ("CompactBufferAllocation", compact_buffers),
    ("LowerMatchBuffer", lower_match_buffer),
    ("LowerOpaqueBlock", lower_opaque_block),
    ("LoopPartition", partition_loops),
    ("FlattenBuffer", flatten_buffers),
    ("Simplify", simplify_stmt),
    ("VectorizeLoop", vectorize_loops),
    ("UnrollLoop", unroll_loops),
)


def lowering_passes() -> list[str]:
    """The names of the lowering passes, in order."""
    return [name for name, _ in STEPS]


def lower(func: PrimFunc, steps: bool = False) -> Any:
    """`func` lowered to plain loops over flat buffers; with `steps`, what every pass made of it."""
    history = []
    for name, transform in STEPS:
        start = time.perf_counter()
        func = transform(func)
        history.append((name, func, time.perf_counter() - start))
    return history if steps else func
