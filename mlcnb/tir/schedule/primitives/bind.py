"""bind: the iterations of a loop run on the blocks or threads of a GPU.

for i in range(128):     ->     for i in T.thread_binding(128, thread="threadIdx.x"):
"""

from __future__ import annotations

from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.handles import name_of
from mlcnb.tir.schedule.primitives.parallel import refuse_carried
from mlcnb.tir.schedule.regions import bindings
from mlcnb.tir.schedule.state import Change, State
from mlcnb.tir.stmt import For, ForKind

#: the axes that a GPU has
THREAD_AXES = tuple(f"{part}.{axis}" for part in ("blockIdx", "threadIdx") for axis in "xyz")
VIRTUAL_AXES = ("vthread", "vthread.x", "vthread.y", "vthread.z")


def bind(state: State, loop: For, thread_axis: str) -> Change:
    """Bind a loop to blockIdx.x/y/z, threadIdx.x/y/z or vthread(.x/.y/.z).

    A loop that fetches into shared memory may stand in one that is bound to the same axis: the
    threads then share the work.

    Raises:
        ScheduleError: there is no such axis, a loop around it is bound to it already, or
            iterations may
            depend on each other.
    """
    if thread_axis not in (*THREAD_AXES, *VIRTUAL_AXES):
        raise state.refusal(
            f"bind: {thread_axis!r} is no thread axis",
            loop,
            hint=f"one of {', '.join((*THREAD_AXES, *VIRTUAL_AXES))}",
        )
    for outer in state.tree.ancestors(loop):
        if isinstance(outer, For) and outer.thread_binding == thread_axis in THREAD_AXES:
            if not _is_shared_work(state, outer, loop):
                raise state.refusal(
                    f"bind: {name_of(loop)} stands in {name_of(outer)}, which is bound to "
                    f"{thread_axis} already",
                    loop,
                    hint="fuse the two loops, or use another axis",
                )
    refuse_carried(state, "bind", loop, private=True)
    edit = state.edit()
    edit.update(loop, kind=ForKind.THREAD_BINDING, thread_binding=thread_axis)
    return Change.of(edit)


def _is_shared_work(state: State, outer: For, inner: For) -> bool:
    """True if the threads of `outer` may do the iterations of `inner` together.

    That is a fetch into shared memory: the same for every thread, so each does a part of it.
    """
    tree = state.tree
    if p.as_int(outer.extent) is None or p.as_int(outer.extent) != p.as_int(inner.extent):
        return False
    for block in tree.blocks_under(inner):
        if any(not r.buffer.scope.startswith("shared") for r in block.writes):
            return False
        if any(v.uses({outer.loop_var}) for v in bindings(tree, block).values.values()):
            return False
    return True
