"""The standard lowering, one step after the other, each a pass that prints.

lower(func)                    the lowered function
run = lower(func, steps=True)  what each pass made of it; shows itself

run["FlattenBuffer"]           one step: .name .before .after .seconds .changed .diff
for name, func, seconds in run: …
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, overload

from mlcnb.core import display
from mlcnb.ir.steps import Steps
from mlcnb.tir.analysis.kernels import uses_threads
from mlcnb.tir.analysis.safety import CHECKED
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.compact_buffer import compact_buffers
from mlcnb.tir.transform.convert_blocks_to_opaque import convert_blocks_to_opaque
from mlcnb.tir.transform.flatten_buffer import flattened_function
from mlcnb.tir.transform.init_of_empty import init_of_empty
from mlcnb.tir.transform.inject_double_buffer import inject_double_buffer
from mlcnb.tir.transform.inject_prefetch import inject_prefetch
from mlcnb.tir.transform.inject_ptx_async_copy import inject_ptx_async_copy
from mlcnb.tir.transform.inject_software_pipeline import inject_software_pipeline
from mlcnb.tir.transform.inject_virtual_thread import inject_virtual_thread
from mlcnb.tir.transform.instrument_bound_checkers import instrument_bound_checkers
from mlcnb.tir.transform.loop_partition import partition_loops
from mlcnb.tir.transform.lower_cross_thread_reduction import lower_cross_thread_reduction
from mlcnb.tir.transform.lower_init_block import lower_init_block
from mlcnb.tir.transform.lower_match_buffer import lower_match_buffer
from mlcnb.tir.transform.lower_opaque_block import lower_opaque_block
from mlcnb.tir.transform.lower_thread_allreduce import lower_thread_allreduce
from mlcnb.tir.transform.narrow_data_type import narrow_static
from mlcnb.tir.transform.overlap_tiles import overlap_tiles
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation
from mlcnb.tir.transform.remove_no_op import remove_no_op
from mlcnb.tir.transform.simplify import simplify_stmt
from mlcnb.tir.transform.skip_padding import skip_padding
from mlcnb.tir.transform.storage_rewrite import rewrite_storage
from mlcnb.tir.transform.thread_sync import thread_sync
from mlcnb.tir.transform.transpose_tile import transpose_tiles
from mlcnb.tir.transform.unify_thread_binding import unify_thread_binding
from mlcnb.tir.transform.unroll_loop import unroll_loops
from mlcnb.tir.transform.vectorize_loop import vectorize_loops

#: bytes of an allocation that is worth sharing; smaller ones live in registers or on the stack
LARGE = 64 << 10

#: the passes in order, by TVM's names; those for threads go before LowerInitBlock and at the end
STEPS: tuple[tuple[str, Callable[[PrimFunc], PrimFunc]], ...] = (
    ("LowerCrossThreadReduction", lower_cross_thread_reduction),
    ("LowerInitBlock", lambda func: lower_init_block(init_of_empty(func))),
    ("PlanAndUpdateBufferAllocationLocation", plan_buffer_allocation),
    ("ConvertBlocksToOpaque", convert_blocks_to_opaque),
    ("CompactBufferAllocation", compact_buffers),
    ("LowerMatchBuffer", lower_match_buffer),
    ("InjectDoubleBuffer", inject_double_buffer),
    ("InjectSoftwarePipeline", inject_software_pipeline),
    ("LowerOpaqueBlock", lower_opaque_block),
    ("UnifyThreadBinding", unify_thread_binding),
    ("InjectVirtualThread", inject_virtual_thread),
    ("ThreadSync", thread_sync),
    ("LowerThreadAllreduce", lower_thread_allreduce),
    ("SkipPadding", skip_padding),
    ("OverlapTiles", overlap_tiles),
    ("LoopPartition", partition_loops),
    ("InstrumentBoundCheckers", instrument_bound_checkers),
    ("FlattenBuffer", flattened_function),
    ("NarrowDataType", narrow_static),
    ("Simplify", simplify_stmt),
    ("InjectPrefetch", inject_prefetch),
    ("VectorizeLoop", vectorize_loops),
    ("TransposeTile", transpose_tiles),
    ("StorageRewrite", partial(rewrite_storage, at_least=LARGE)),
    ("UnrollLoop", unroll_loops),
    ("RemoveNoOp", remove_no_op),
    ("InjectPTXAsyncCopy", inject_ptx_async_copy),
)
#: passes that have something to do only where a function runs on the threads of a GPU
OF_THREADS = frozenset(
    "LowerCrossThreadReduction UnifyThreadBinding InjectVirtualThread ThreadSync "
    "LowerThreadAllreduce InjectPTXAsyncCopy".split()
)


@dataclass(frozen=True, slots=True, repr=False)
class LoweringStep(display.Shown):
    """What one pass made of a function, in so many seconds."""

    name: str
    before: PrimFunc
    after: PrimFunc
    seconds: float

    @property
    def changed(self) -> bool:
        """Whether the pass changed the function."""
        return self.after is not self.before

    @property
    def reason(self) -> str:
        """Changed, or not."""
        return "changed" if self.changed else "nothing to do"

    @property
    def summary(self) -> str:
        """What the pass is for: the first sentence of its docstring."""
        made = getattr(display.load("mlcnb.tir:transform"), self.name, None)
        return "" if made is None else made().summary

    @property
    def diff(self) -> Any:
        """The lines that differ: `mlcnb.diff(before, after)`."""
        compare: Any = display.load("mlcnb.view.diff:diff")
        return compare(self.before, self.after)

    def __iter__(self) -> Iterator[Any]:
        """As a triple: name, function, seconds."""
        return iter((self.name, self.after, self.seconds))

    def __repr__(self) -> str:
        return f"{self.name}: {self.reason} ({self.seconds * 1e3:.2f} ms)"


class Lowering(Steps[LoweringStep]):
    """The steps of one lowering, in order; `result` is what came out."""

    called = "lower"

    def __init__(self, func: PrimFunc, steps: list[LoweringStep]) -> None:
        self.func = func
        self.steps = steps

    @property
    def result(self) -> PrimFunc:
        """The function after the last pass."""
        return self.steps[-1].after if self.steps else self.func

    @property
    def seconds(self) -> float:
        """Seconds of all passes together."""
        return sum(step.seconds for step in self.steps)

    def __repr__(self) -> str:
        lines = [f"{len(self.steps)} passes, {self.seconds * 1e3:.1f} ms"]
        for number, step in enumerate(self.steps):
            mark = "*" if step.changed else " "
            lines.append(
                f"{number:3} {mark} {step.name:<40} {step.seconds * 1e3:8.2f} ms  {step.reason}"
            )
        return "\n".join(lines)


#: passes that have something to do only where accesses are checked while a function runs
OF_CHECKS = frozenset(("InstrumentBoundCheckers",))


def lowering_passes(threads: bool = False, checks: bool = False) -> list[str]:
    """The names of the lowering passes, in order; with those of programs with GPU `threads`, and
    of those whose accesses need `checks`.
    """
    left_out = (frozenset() if threads else OF_THREADS) | (frozenset() if checks else OF_CHECKS)
    return [name for name, _ in STEPS if name not in left_out]


@overload
def lower(func: PrimFunc, steps: Literal[False] = False) -> PrimFunc: ...
@overload
def lower(func: PrimFunc, steps: Literal[True]) -> Lowering: ...
def lower(func: PrimFunc, steps: bool = False) -> PrimFunc | Lowering:
    """`func` lowered to plain loops over flat buffers; with `steps`, what every pass made of it."""
    run = Lowering(func, [])
    passes = lowering_passes(uses_threads(func), CHECKED in func.attrs)
    for name, transform in STEPS:
        if name not in passes:
            continue
        before, start = run.result, time.perf_counter()
        after = transform(before)
        run.steps.append(LoweringStep(name, before, after, time.perf_counter() - start))
    return run if steps else run.result
