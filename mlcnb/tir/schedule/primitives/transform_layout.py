"""transform_layout: a buffer gets another shape, and every access of it follows.

B = T.alloc_buffer((16, 8))                  B = T.alloc_buffer((4, 8, 4))
B[v_i, v_j] = ...                     ->     B[v_i // 4, v_j, v_i % 4] = ...
                  lambda i, j: (i // 4, j, i % 4)

Where 4 does not divide the extent, the new shape is larger. With a `pad_value` the rest is filled:
by the block that makes the buffer, where it is elementwise,

for i in range(14):                          for ax0, ax1 in T.grid(4, 4):
    B[v_i] = A[v_i]                   ->         B[v0, v1] = T.if_then_else(
                                                     14 <= v0 * 4 + v1, 0.0, A[v0 * 4 + v1])

and else by a block of its own, behind it; what is filled by the caller is said by T.assume.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.sum import Bounds
from mlcnb.core.node import replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.edit import caching
from mlcnb.tir.schedule.edit.elementwise import axis_bounds
from mlcnb.tir.schedule.edit.layouts import Layout
from mlcnb.tir.schedule.edit.padding import padded
from mlcnb.tir.schedule.edit.rebuild import BufferSwap
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block


@does()
def transform_layout(
    state: State,
    block: Block,
    buffer: Any,
    index_map: Any,
    pad_value: Any = None,
    *,
    assume_injective_transform: bool = False,
) -> Change:
    """Lay a buffer out anew, in the whole function.

    The new shape is what the map makes of the old one, rounded up where a factor does not divide
    it; the dtype stays.

    Args:
        state: the program.
        block: a block that reads or writes the buffer.
        buffer: ("read", n) or ("write", n), its name, or the Buffer.
        index_map: a function of the old indices that gives the new ones, or a tir.IndexMap.
        pad_value: what the elements are that no old index maps to, a number or a function of the
            new indices; None leaves them undefined. An input of the function must be given with it.
        assume_injective_transform: take it on trust that no two elements come to one place, where
            that can neither be proved nor tried.

    Raises:
        ScheduleError: the map is not injective, or its padding cannot be told.
    """
    old = caching.named_buffer(state, "transform_layout", block, buffer)
    layout = Layout(
        state, "transform_layout", index_map, old.shape, block, assume_injective_transform
    )
    pad = _pad_value(state, block, old, layout, pad_value)
    new = replace(old, shape=layout.shape, strides=(), axis_separators=())
    if not layout.stays:
        caching.refuse_views(state, "transform_layout", old, caching.users_of(state.tree, old))
    known: dict[e.Var, Bounds] = {}
    for user in state.tree.blocks:
        known.update(axis_bounds(user))
    edit = state.edit()
    swap = BufferSwap(
        {old: new},
        edit.forward,
        rule=lambda indices: layout.indices(indices, known),
        box=lambda r, to: layout.region(r, to, known),
    )
    func = caching.replaced_everywhere(state, old, new, edit, swap)
    change = Change.of(edit, func=func).noting(
        buffer=caching.place_of(block, old, buffer), index_map=layout.map, pad_value=pad
    )
    if pad is None or not layout.pads:
        return change
    return padded(state, block, (old, new), layout, pad, change)


def _pad_value(
    state: State, block: Block, old: Buffer, layout: Layout, given: Any
) -> IndexMap | e.PrimExpr | None:
    """The value of padding: a constant of the buffer's dtype, or a map of the new indices."""
    if given is None:
        return None
    if layout.inverse is None:
        raise state.refusal(
            "transform_layout: it is not known which elements of the new layout are padding: "
            "the index map has no inverse in closed form",
            block,
            hint="leave pad_value out",
        )
    if callable(given):
        given = IndexMap.from_func(given, len(layout.shape), index_dtype=str(layout.kind))
    for part in given.final_indices if isinstance(given, IndexMap) else (given,):
        loaded = _first_load(part)
        if loaded is not None:
            raise state.refusal(
                f"transform_layout: the padding is read from {loaded.buffer.name}; it may be made "
                "of the new indices and of constants only",
                block,
                hint="pad_value=0, or leave pad_value out",
            )
    if isinstance(given, IndexMap):
        return given
    value = p.as_expr(given, old.dtype)
    if value.dtype != old.dtype:
        raise state.refusal(
            f"transform_layout: the padding is {value.dtype}, {old.name} holds {old.dtype}", block
        )
    return value


def _first_load(value: Any) -> BufferLoad | None:
    loads = walk(value) if isinstance(value, e.PrimExpr) else ()
    return next((n for n in loads if isinstance(n, BufferLoad)), None)
