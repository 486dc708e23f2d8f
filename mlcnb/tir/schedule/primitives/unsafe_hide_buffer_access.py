"""unsafe_hide_buffer_access: a block no longer says that it touches a buffer.

with T.block("C"):                        with T.block("C"):
    T.reads(A[v], look_up[0:16])    ->        T.reads(A[v])
    ...                                       ...

From then on no step knows of the dependence: a producer of the buffer may be moved behind the
block. Whoever hides an access vouches for the order.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does(still=True)
def unsafe_hide_buffer_access(
    state: State, block: Block, buf_type: str, buf_index_array: Sequence[int]
) -> Change:
    """Take regions out of what a block says that it reads or writes; the body stays as it is.

    Buffers keep shape and dtype, so that the program computes the same.

    Args:
        state: the program.
        block: the block.
        buf_type: "read" or "write".
        buf_index_array: the numbers of the regions.

    Raises:
        ScheduleError: `buf_type` is another word, or there is no such region.
    """
    name = "unsafe_hide_buffer_access"
    if buf_type not in ("read", "write"):
        raise state.refusal(f'{name}: buf_type is {buf_type!r}, not "read" or "write"', block)
    regions = block.reads if buf_type == "read" else block.writes
    hidden = [int(x) for x in buf_index_array]
    for index in hidden:
        if not 0 <= index < len(regions):
            names = ", ".join(r.buffer.name for r in regions) or "nothing"
            raise state.refusal(
                f"{name}: {name_of(block)} has no region {index} among its {buf_type}s",
                block,
                hint=f"it {buf_type}s {names}",
            )
    kept = tuple(r for n, r in enumerate(regions) if n not in hidden)
    return state.updated(block, **{f"{buf_type}s": kept})
