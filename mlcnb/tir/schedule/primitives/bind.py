"""bind: the iterations of a loop run on the blocks or threads of a GPU.

for i in range(128):     ->     for i in T.thread_binding(128, thread="threadIdx.x"):
"""

from __future__ import annotations

from mlcnb.tir.schedule.handles import name_of
from mlcnb.tir.schedule.primitives.parallel import refuse_carried
from mlcnb.tir.schedule.state import Change, State
from mlcnb.tir.stmt import For, ForKind

#: the axes that a GPU has
THREAD_AXES = tuple(f"{part}.{axis}" for part in ("blockIdx", "threadIdx") for axis in "xyz")
VIRTUAL_AXES = ("vthread", "vthread.x", "vthread.y", "vthread.z")


def bind(state: State, loop: For, thread_axis: str) -> Change:
    """Bind a loop to blockIdx.x/y/z, threadIdx.x/y/z or vthread(.x/.y/.z).

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
