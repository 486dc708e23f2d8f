"""bind: the iterations of a loop run on the blocks or threads of a GPU.

for i in range(128):     ->     for i in T.thread_binding(128, thread="threadIdx.x"):

The threads of a block may share the steps of a reduction, if it is a sum, product, minimum or
maximum: they combine their parts in the end (LowerCrossThreadReduction).
"""

from __future__ import annotations

from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES, THREAD_AXES, VIRTUAL_AXES
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.schedule.legality.dependence import why_not_one_fetch
from mlcnb.tir.schedule.primitives.parallel import refuse_carried
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind

#: threads that a block can have along x or y, on any GPU so far
MOST_THREADS = 1024


@does(
    marks=True, near="rfactor decompose_reduction unroll split", tries={"thread_axis": THREAD_AXES}
)
def bind(state: State, loop: For, thread_axis: str) -> Change:
    """Bind a loop to blockIdx.x/y/z, threadIdx.x/y/z or vthread(.x/.y/.z).

    The extent may be symbolic: it is then known when the kernel is launched. Of a thread axis it is
    at most 1024.

    A loop that fetches into shared memory may stand in one that is bound to the same axis: the
    threads then share the work.

    Raises:
        ScheduleError: there is no such axis, it has more threads than a block can have, a loop
            around it is bound to it already, or iterations may depend on each other.
    """
    if thread_axis not in (*THREAD_AXES, *VIRTUAL_AXES):
        raise state.refusal(
            f"bind: {thread_axis!r} is no thread axis",
            loop,
            hint=f"one of {', '.join((*THREAD_AXES, *VIRTUAL_AXES))}",
        )
    extent = p.as_int(loop.extent) or 0
    if thread_axis in IN_BLOCK_AXES and extent > MOST_THREADS:
        raise state.refusal(
            f"bind: {name_of(loop)} has {extent} iterations, a block has at most {MOST_THREADS} "
            "threads",
            loop,
            hint="split it, and bind the outer loop to blockIdx, the inner one to threadIdx",
        )
    if thread_axis in THREAD_AXES:
        _refuse_bound_twice(state, loop, thread_axis)
    refuse_carried(state, "bind", loop, private=True, threads=thread_axis in IN_BLOCK_AXES)
    return state.updated(loop, kind=ForKind.THREAD_BINDING, thread_binding=thread_axis)


def _refuse_bound_twice(state: State, loop: For, thread_axis: str) -> None:
    """A loop around or inside that is bound already, unless the inner one is a fetch of all."""
    around = (x for x in state.tree.ancestors(loop) if isinstance(x, For))
    within = (x for x in statements(loop.body) if isinstance(x, For))
    pairs = [(x, loop, x, "stands in") for x in around] + [(loop, x, x, "holds") for x in within]
    for outer, inner, other, how in pairs:
        if other.thread_binding == thread_axis and why_not_one_fetch(state.tree, outer, inner):
            raise state.refusal(
                f"bind: {name_of(loop)} {how} {name_of(other)}, which is bound to {thread_axis} "
                "already",
                loop,
                hint="fuse the two loops, or use another axis",
            )
