"""Launching: which programs run on the threads of a simulated GPU, and what they need before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import walk
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.analysis.kernels import IMPLICIT, is_collective, is_launch, kernels_in, launch_of
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block
from mlcnb.tir.transform.convert_blocks_to_opaque import convert_blocks_to_opaque
from mlcnb.tir.transform.lower_cross_thread_reduction import lower_cross_thread_reduction
from mlcnb.tir.transform.lower_init_block import lower_init_block
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation
from mlcnb.tir.transform.thread_sync import thread_sync
from mlcnb.tir.transform.unify_thread_binding import unify_thread_binding


def runs_on_threads(func: PrimFunc) -> bool:
    """True if a function means what a GPU does: no blocks, or threads that wait for each other."""
    in_blocks = any(isinstance(n, Block) for n in walk(func.body))
    return not in_blocks or any(is_launch(n) or is_collective(n) for n in walk(func.body))


def on_threads(func: PrimFunc) -> PrimFunc:
    """A function of any stage with its launches, and with barriers where none are written."""
    if any(isinstance(n, Block) for n in walk(func.body)):
        waits = has_barriers(func)
        for transform in TO_THREADS:
            func = transform(func)
        return func if waits else thread_sync(func)
    func = unify_thread_binding(func)
    return thread_sync(func) if func.attrs.get(IMPLICIT) else func


def has_barriers(func: PrimFunc) -> bool:
    """True for a program in which somebody wrote where threads wait."""
    return any(isinstance(n, Call) and n.op == "tir.tvm_storage_sync" for n in walk(func.body))


#: the passes that make a program in block form one of threads
TO_THREADS: tuple[Callable[[PrimFunc], PrimFunc], ...] = (
    lower_cross_thread_reduction,
    lower_init_block,
    plan_buffer_allocation,
    convert_blocks_to_opaque,
    unify_thread_binding,
)


def launcher(name: str, kernel: PrimFunc, run: Callable[..., Any]) -> Callable[..., int]:
    """What the host calls: runs a kernel on its arguments, with the launch as it was asked for."""

    def launch(*args: Any) -> int:
        params = len(kernel.params)
        values = dict(zip(kernel.params, args[:params], strict=True))
        sizes = [values[x] if isinstance(x, Var) else as_int(x) for x in _launch_sizes(kernel)]
        asked = list(args[params : params + len(sizes)])
        if asked != sizes:
            raise ExecutionError(f"{name} is launched with {asked}, but is made for {sizes}")
        run(kernel, list(args[:params]))
        return 0

    return launch


def _launch_sizes(kernel: PrimFunc) -> list[PrimExpr]:
    launch = next(kernels_in(kernel.body), None)
    return [] if launch is None else [a.dom.extent for a in launch_of(launch).axes.values()]
