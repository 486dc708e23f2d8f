"""set_scope: the memory in which a block's output lives.

B = T.alloc_buffer((16,))     ->     B = T.alloc_buffer((16,), scope="shared")
"""

from __future__ import annotations

from mlcnb.core.node import replace
from mlcnb.ir.expr import Var
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.rebuild import ViewSwap
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does()
def set_scope(
    state: State, block: Block, buffer_index: int | str | Buffer, storage_scope: str
) -> Change:
    """Put a buffer that a block writes into another memory scope.

    Its shape and dtype stay.

    Args:
        state: the program.
        block: a block that writes the buffer, or allocates it.
        buffer_index: which of its outputs or, after them, of what it allocates: by number,
            by name, or itself.
        storage_scope: local, shared, global, …

    Raises:
        ScheduleError: the buffer is a parameter of the function, or there is no such scope.
    """
    caching.refuse_scope(state, "set_scope", storage_scope, block)
    old = _allocated(block, buffer_index)
    kept: int | str
    if old is not None:
        kept = _reference(block, old)
    else:
        old = caching.chosen_buffer(state, "set_scope", block, block.writes, buffer_index)
        kept = caching.index_of(block.writes, old)
    hint = f"cache_write it into {storage_scope!r}"
    caching.refuse_parameter(state, "set_scope", block, old, hint)
    swaps = caching.with_views(state.tree, old, lambda b, _: _moved(b, storage_scope))
    edit = state.edit()
    func = caching.replaced_everywhere(state, old, swaps[old], edit, ViewSwap(swaps, edit.forward))
    return Change.of(edit, func=func).noting(buffer_index=kept)


def _allocated(block: Block, asked: int | str | Buffer) -> Buffer | None:
    """What of a block's allocations is asked for; None where it is none of them, or several."""
    own = block.alloc_buffers
    if type(asked) is int:
        number = asked - len(block.writes)
        return own[number] if 0 <= number < len(own) else None
    found = [b for b in own if b is asked] or [b for b in own if b.name == asked]
    return found[0] if len(found) == 1 else None


def _reference(block: Block, buffer: Buffer) -> int | str:
    """How a trace says which allocation it is: by its name, or by number where others have it."""
    own = block.alloc_buffers
    if sum(b.name == buffer.name for b in own) == 1:
        return buffer.name
    return len(block.writes) + own.index(buffer)


def _moved(buffer: Buffer, scope: str) -> Buffer:
    """The buffer in another memory scope."""
    data = buffer.data
    return replace(buffer, data=Var(data.name, data.dtype, (str(buffer.dtype), scope)))
