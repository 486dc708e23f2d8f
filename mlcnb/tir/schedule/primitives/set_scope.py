"""set_scope: the memory in which a block's output lives.

B = T.alloc_buffer((16,))     ->     B = T.alloc_buffer((16,), scope="shared")
"""

from __future__ import annotations

from mlcnb.core.node import replace
from mlcnb.ir.expr import Var
from mlcnb.tir.schedule.caching import chosen_buffer
from mlcnb.tir.schedule.handles import name_of
from mlcnb.tir.schedule.rebuild import BufferSwap
from mlcnb.tir.schedule.state import Change, State
from mlcnb.tir.stmt import Block


def set_scope(state: State, block: Block, buffer_index: int | str, storage_scope: str) -> Change:
    """Put a buffer that a block writes into another memory scope.

    Args:
        state: the program.
        block: a block that writes the buffer.
        buffer_index: which of its outputs, by number or name.
        storage_scope: local, shared, global, …

    Raises:
        ScheduleError: the buffer is a parameter of the function.
    """
    names = [r.buffer.name for r in block.writes]
    index = names.index(buffer_index) if buffer_index in names else buffer_index
    old = chosen_buffer(state, "set_scope", block, block.writes, index)  # type: ignore[arg-type]
    home = next((b for b in state.tree.blocks if old in b.alloc_buffers), None)
    if home is None:
        raise state.refusal(
            f"set_scope: {old.name}, which {name_of(block)} writes, is a parameter",
            block,
            hint=f"cache_write it into {storage_scope!r}",
        )
    data = Var(old.data.name, old.data.dtype, (str(old.dtype), storage_scope))
    new = replace(old, data=data)
    edit = state.edit()
    swapped = BufferSwap({old: new}, edit.forward).stmt(home)
    buffers = tuple(new if b is old else b for b in swapped.alloc_buffers)
    made = replace(swapped, alloc_buffers=buffers)
    edit.became(home, made)
    edit.put(home, made)
    return Change.of(edit)
