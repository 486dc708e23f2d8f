"""set_axis_separator: where the dimensions of a buffer part into the axes of a physical memory.

B = T.alloc_buffer((4, 8, 16))    ->    B = T.alloc_buffer((4, 8, 16), axis_separators=[1])

The dimensions between two separators become one axis of the memory: [1] makes it 4 x (8 * 16), as
a two-dimensional memory (a texture, a VTCM) wants it. Memory of one axis needs none.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import Var
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit.caching import named_buffer, place_of, replaced_everywhere, with_views
from mlcnb.tir.schedule.edit.rebuild import ViewSwap
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does(still=True)
def set_axis_separator(
    state: State, block: Block, buffer: Any, axis_separators: list[int] | None = None
) -> Change:
    """Set the axis separators of a buffer, in the whole function.

    The shape stays: separators say where an axis of physical memory begins.

    Args:
        state: the program.
        block: a block that reads or writes the buffer.
        buffer: ("read", n) or ("write", n), its name, or the Buffer.
        axis_separators: dimensions in rising order, each from 0 to the number of dimensions; a new
            axis of memory begins there. None for no separators.

    Raises:
        ScheduleError: the separators are not in order, or beyond the dimensions.
    """
    name = "set_axis_separator"
    old = named_buffer(state, name, block, buffer)
    places = tuple(int(x) for x in axis_separators or ())
    outside = [x for x in places if not 0 <= x <= old.ndim]
    if outside or list(places) != sorted(places):
        reason = f"{outside[0]} is beyond them" if outside else "they must not fall"
        raise state.refusal(
            f"{name}: {list(places)} cannot part the {old.ndim} dimensions of {old.name}: {reason}",
            block,
        )
    swaps = with_views(state.tree, old, lambda b, fewer: _parted(b, places, fewer))
    edit = state.edit()
    func = replaced_everywhere(state, old, swaps[old], edit, ViewSwap(swaps, edit.forward))
    place = place_of(block, old, buffer)
    return Change.of(edit, func=func).noting(buffer=place, axis_separators=list(places))


def _parted(buffer: Buffer, places: tuple[int, ...], fewer: int) -> Buffer:
    """A buffer, or a view that has `fewer` dimensions at the front, with separators."""
    data = Var(buffer.data.name, buffer.data.dtype, buffer.data.pointee)
    return replace(buffer, axis_separators=tuple(max(n - fewer, 0) for n in places), data=data)
