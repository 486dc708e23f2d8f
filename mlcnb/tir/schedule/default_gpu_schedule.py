"""DefaultGPUSchedule: blocks that run on no thread yet get a thread for each of their elements.

for i, j in T.grid(64, 64):            for i_j_fused_0 in T.thread_binding(4, "blockIdx.x"):
    with T.block("B"): ...         ->      for i_j_fused_1 in T.thread_binding(1024, …):
                                               with T.block("B"): ...

The outer loops that share nothing between their iterations are fused; of more elements than threads
each thread takes several. Functions for a CPU, and those marked `tir.is_scheduled`, stay.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BlockRealize, For, ForKind, IterType

#: attribute of a function that has a schedule
IS_SCHEDULED = "tir.is_scheduled"
#: blocks that are started at most, and threads of one where the target does not say
BLOCKS, THREADS = 256, 1024


class DefaultGPUSchedule(ModulePass):
    """Bind the blocks of functions that have no schedule yet to threads."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Every loop function that is not marked, bound to threads, and marked."""
        changed: dict[Any, Any] = {}
        for key, func in mod.of_kind(PrimFunc).items():
            if not func.attrs.get(IS_SCHEDULED):
                changed[key] = scheduled(key, func).with_attr(IS_SCHEDULED, True)
        return mod.with_functions(changed)


def scheduled(key: GlobalVar, func: PrimFunc) -> PrimFunc:
    """A function with its blocks on threads; itself for a CPU."""
    given = func.attrs.get("target")
    target = Target(given) if given is not None else Target.current()
    if target is not None and target.is_cpu:
        return func
    limit = THREADS if target is None else int(target.attrs.get("max_threads_per_block", THREADS))
    sch = Schedule(IRModule(FrozenDict({key: func})), enable_check=False)
    for block in sch.get_child_blocks(sch.get_block("root", func_name=key.name_hint)):
        _bind(sch, block, limit)
    return sch.mod[key.name_hint]  # type: ignore[return-value]


def _bind(sch: Schedule, block: Any, limit: int) -> None:
    """One block and the loops around it."""
    loops = sch.get_loops(block)
    if any(bound_axis(sch.get(loop)) is not None for loop in loops):
        return
    outer = _independent(sch, loops)
    if not loops:
        outer = [sch.add_unit_loop(block)]
    elif not outer:
        outer = [sch.add_unit_loop(loops[0])]
    fused = sch.fuse(*outer)
    extent = p.as_int(sch.get(fused).extent)
    if extent is not None and extent <= BLOCKS * limit:
        blocks, threads = sch.split(fused, factors=[None, min(extent, limit)])
    else:
        several, blocks, threads = sch.split(fused, factors=[None, BLOCKS, limit])
        sch.reorder(blocks, threads, several)
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


def _independent(sch: Schedule, loops: list[Any]) -> list[Any]:
    """The outer loops whose iterations are independent, one directly in the other."""
    found: list[Any] = []
    above: For | None = None
    for loop in loops:
        node = sch.get(loop)
        if node.kind is not ForKind.SERIAL or node.annotations or not _is_spatial(node):
            break
        if above is not None and above.body is not node:
            break
        found.append(loop)
        above = node
    return found


def _is_spatial(loop: For) -> bool:
    """True if only spatial axes of the blocks below depend on the loop."""
    return all(
        axis.iter_type is IterType.SPATIAL or loop.loop_var not in set(walk(value))
        for n in statements(loop)
        if isinstance(n, BlockRealize)
        for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True)
    )
