"""Launching: which programs run on the threads of a simulated GPU, what they need before, and how
it is seen that threads race in one that does not.

for tx in T.thread_binding(8, thread="threadIdx.x"):
    with T.block("B"):                          as loops: the sum of A; on 8 threads: a race
        vi = T.axis.spatial(8, tx)
        B[0] = B[0] + A[vi]

The loops of a program in block form say what it computes, whoever runs them. So before such a
program runs as loops, it runs on threads with copies of its arguments, and a race that is found
there is its error. What a GPU cannot do for other reasons is no matter here: a reduction that
threads cannot share runs as it is written, and a buffer that a kernel would have to allocate in
global memory is taken for memory that the threads of a block share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlcnb.core.errors import ExecutionError, MLCError, PassError
from mlcnb.core.node import replace, walk
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.analysis.kernels import IMPLICIT, is_collective, is_launch, kernels_in, launch_of
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
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


def on_racing_threads(func: PrimFunc, more: Sequence[Any] = ()) -> PrimFunc | None:
    """A function in block form as threads would run it; None where there is no such form.

    more: passes that come before its barriers.
    """
    waits = has_barriers(func)
    try:
        for transform in (*TO_THREADS, *more):
            func = _reduced(func) if transform is lower_cross_thread_reduction else transform(func)
            if transform is plan_buffer_allocation:
                func = _shared(func)
        return func if waits else thread_sync(func)
    except MLCError:
        return None


def _reduced(func: PrimFunc) -> PrimFunc:
    """Reductions that threads share; one that they cannot share stays as it is."""
    try:
        return lower_cross_thread_reduction(func)
    except PassError:
        return func


def _shared(func: PrimFunc) -> PrimFunc:
    """Buffers that live in a kernel, in global memory, moved to shared memory."""
    values: dict[Any, Any] = {}
    for buffer in _allocated(func):
        data = Var(buffer.data.name, buffer.data.dtype, (str(buffer.dtype), "shared"))
        values[buffer], values[buffer.data] = replace(buffer, data=data), data
    return func.with_body(substitute(func.body, values)) if values else func


def _allocated(func: PrimFunc) -> Iterator[Buffer]:
    for kernel in kernels_in(func.body):
        for n in walk(kernel):
            if isinstance(n, Block):
                yield from (b for b in n.alloc_buffers if b.scope == "global")


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
