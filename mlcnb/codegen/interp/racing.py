"""Do threads race in a program in block form? Its loops say what it computes, whoever runs them.

for tx in T.thread_binding(8, thread="threadIdx.x"):
    with T.block("B"):                          as loops: the sum of A; on 8 threads: a race
        vi = T.axis.spatial(8, tx)
        B[0] = B[0] + A[vi]

So before such a program runs as loops, it runs on threads with copies of its arguments, and a race
that is found there is its error. What a GPU cannot do for other reasons is no matter here: a
reduction that threads cannot share runs as it is written, and a buffer that a kernel would have to
allocate in global memory is taken for memory that the threads of a block share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlcnb.codegen.interp.launching import TO_THREADS, has_barriers
from mlcnb.core.errors import MLCError, PassError
from mlcnb.core.node import replace, walk
from mlcnb.ir.expr import Var
from mlcnb.tir.analysis.kernels import kernels_in
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import Block
from mlcnb.tir.transform.lower_cross_thread_reduction import lower_cross_thread_reduction
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation
from mlcnb.tir.transform.thread_sync import thread_sync


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
