"""set_dtype, unsafe_set_dtype: a buffer in the middle holds numbers of another kind.

B = T.alloc_buffer((16,))                     B = T.alloc_buffer((16,), "float16")
B[v] = A[v] * 2.0                      ->     B[v] = T.Cast("float16", A[v] * 2.0)
C[v] = B[v] + 1.0                             C[v] = T.Cast("float32", B[v]) + 1.0

set_dtype takes only dtypes that hold every value of the old one, so nothing that is computed
changes; unsafe_set_dtype takes any, and results may be rounded, wrapped or cut off.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Var
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.rebuild import ViewSwap
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, DeclBuffer


@does()
def set_dtype(state: State, block: Block, buffer_index: int | str | Buffer, dtype: str) -> Change:
    """Let a buffer hold a dtype that has every value of the one that it holds now.

    Args:
        state: the program.
        block: a block that writes the buffer.
        buffer_index: which of its outputs, by number, by name, or itself.
        dtype: the new dtype: float32 for a float16 buffer, int32 for a uint8 one, …

    Raises:
        ScheduleError: the buffer is a parameter, or the new dtype lacks some values of the old one.
    """
    old = _buffer(state, "set_dtype", block, buffer_index)
    kind = _kind(state, "set_dtype", block, dtype)
    if state.checks and not holds(kind, old.dtype):
        raise state.refusal(
            f"set_dtype: {kind} does not hold every value of {old.dtype}, which {old.name} has",
            block,
            hint="unsafe_set_dtype changes it all the same, and with it the results",
        )
    return _changed(state, "set_dtype", block, old, kind)


@does()
def unsafe_set_dtype(
    state: State, block: Block, buffer_index: int | str | Buffer, dtype: str
) -> Change:
    """Let a buffer hold another dtype; values are converted when written and when read.

    The results of the program may change: by rounding, or worse where a value is out of range.

    Args:
        state: the program.
        block: a block that writes the buffer.
        buffer_index: which of its outputs, by number, by name, or itself.
        dtype: the new dtype.

    Raises:
        ScheduleError: the buffer is a parameter, or there is no such dtype.
    """
    old = _buffer(state, "unsafe_set_dtype", block, buffer_index)
    kind = _kind(state, "unsafe_set_dtype", block, dtype)
    return _changed(state, "unsafe_set_dtype", block, old, kind)


def _buffer(state: State, name: str, block: Block, index: int | str | Buffer) -> Buffer:
    old = caching.chosen_buffer(state, name, block, block.writes, index)
    hint = "cache_write it, and change the dtype of the copy"
    caching.refuse_parameter(state, name, block, old, hint)
    return old


def _kind(state: State, name: str, block: Block, given: Any) -> DType:
    try:
        kind = dtype(str(given))
    except MLCError as error:
        raise state.refusal(f"{name}: {error.message}", block, error.hint) from error
    if kind.is_handle or kind == "void" or kind.lanes != 1:
        raise state.refusal(f"{name}: a buffer cannot hold elements of dtype {kind}", block)
    return kind


def _changed(state: State, name: str, block: Block, old: Buffer, kind: DType) -> Change:
    kind = kind.with_lanes(old.dtype.lanes)
    swaps = caching.with_views(state.tree, old, lambda b, _: _holding(b, kind))
    pointers = {b.data for b in swaps}
    for x in escapes(state.func):  # views are exchanged, what a call gets is not
        if x.data in pointers and not isinstance(x.node, DeclBuffer):
            who = name_of(x.block) if x.block else "the function"
            told = f"{who} passes on a pointer to {old.name}, behind which {old.dtype} is expected"
            raise state.refusal(f"{name}: {told}", x.block)
    edit = state.edit()
    func = caching.replaced_everywhere(
        state, old, swaps[old], edit, _Converted(swaps, edit.forward)
    )
    return Change.of(edit, func=func).noting(buffer_index=caching.index_of(block.writes, old))


def _holding(buffer: Buffer, kind: DType) -> Buffer:
    """The buffer with elements of another dtype."""
    data = Var(buffer.data.name, buffer.data.dtype, (str(kind), buffer.scope))
    return replace(buffer, dtype=kind, data=data)


class _Converted(ViewSwap):
    """Loads and stores of the old buffer become those of the new one, with casts around them."""

    def _swap(self, n: Node) -> Node | None:
        new = super()._swap(n)
        if new is not None and isinstance(n, BufferLoad):
            return p.cast(n.dtype, new)
        return new

    def on_BufferStore(self, n: BufferStore) -> Any:
        """The value is converted before it is stored."""
        new = super().on_BufferStore(n)
        if n.buffer not in self.swaps:
            return new
        kind = self.swaps[n.buffer].dtype.with_lanes(new.value.dtype.lanes)
        return replace(new, value=p.cast(kind, new.value))


def holds(wide: DType, narrow: DType) -> bool:
    """True if every value of the dtype `narrow` is one of `wide` too (lanes left out)."""
    wide, narrow = wide.element, narrow.element
    if wide == narrow or narrow.is_bool:
        return True
    if wide.is_bool:
        return False
    if narrow.is_integer:
        own = narrow.bits - narrow.is_int
        if wide.is_integer:
            return wide.bits - wide.is_int >= own and (wide.is_int or not narrow.is_int)
        return _limits(wide)[0] >= own and _limits(wide)[1] >= own
    if wide.is_integer:
        return False
    (digits, top, bottom), (others, high, low) = _limits(wide), _limits(narrow)
    return digits >= others and top >= high and bottom <= low


def _limits(kind: DType) -> tuple[int, int, int]:
    """Of a float: binary digits, exponents of the first power too large and of the least value."""
    from ml_dtypes import finfo

    info = finfo(kind.numpy)
    return info.nmant + 1, info.maxexp, info.minexp - info.nmant
