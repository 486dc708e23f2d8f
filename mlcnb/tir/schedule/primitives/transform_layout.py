"""transform_layout: a buffer gets another shape, and every access of it follows.

B = T.alloc_buffer((16, 8))                  B = T.alloc_buffer((4, 8, 4))
B[v_i, v_j] = ...                     ->     B[v_i // 4, v_j, v_i % 4] = ...
                  lambda i, j: (i // 4, j, i % 4)

Where 4 does not divide the extent, the new shape is larger, and `pad_value` says what stands in
the rest.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.affine import Bounds
from mlcnb.tir.schedule.caching import (
    index_dtype,
    named_buffer,
    place_of,
    refuse_views,
    replaced_everywhere,
    users_of,
)
from mlcnb.tir.schedule.elementwise import axis_bounds
from mlcnb.tir.schedule.layouts import Layout
from mlcnb.tir.schedule.nests import point
from mlcnb.tir.schedule.reading import Context, of, simplified
from mlcnb.tir.schedule.rebuild import BufferSwap
from mlcnb.tir.schedule.state import Change, State, arrived
from mlcnb.tir.schedule.tree import Edit, Tree
from mlcnb.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IterVar, Stmt


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

    Args:
        state: the program.
        block: a block that reads or writes the buffer.
        buffer: ("read", n) or ("write", n), its name, or the Buffer.
        index_map: a function of the old indices that gives the new ones, or a tir.IndexMap.
        pad_value: what the elements are that no old index maps to; None leaves them undefined.
        assume_injective_transform: accepted for TVM's sake; injectivity is always checked.

    Raises:
        ScheduleError: the map is not injective, or padding is asked for an input of the function.
    """
    old = named_buffer(state, "transform_layout", block, buffer)
    layout = Layout(state, "transform_layout", index_map, old.shape, block)
    new = replace(old, shape=layout.shape, strides=(), axis_separators=())
    refuse_views(state, "transform_layout", old, users_of(state.tree, old))
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
    func = replaced_everywhere(state, old, new, edit, swap)
    change = Change.of(edit, func=func).noting(
        buffer=place_of(block, old, buffer), index_map=layout.map
    )
    if pad_value is None or not layout.pads:
        return change
    return _padded(state, block, old, new, layout, pad_value, change)


def _padded(
    state: State, block: Block, old: Buffer, new: Buffer, layout: Layout, value: Any, done: Change
) -> Change:
    """The padding filled by a block of its own, behind the last writer."""
    tree = state.tree
    info = tree.info(tree.scope(block))
    writers = info.writers.get(old, [])
    if not writers:
        raise state.refusal(
            f"transform_layout: nothing here writes {old.name}, so its padding cannot be filled",
            block,
            hint="cache_read it, and lay out the copy",
        )
    made = Tree(done.func)
    last = arrived(done.forward, max(writers, key=lambda b: tree.position[b]))
    top = made.child_towards(made.scope(last), made.realize(last))
    nest = _fill(new, layout, value, index_dtype(tree, block))
    edit = Edit(made)
    edit.after(top, nest)
    func = edit.done()
    forward = {k: edit.forward.get(v, v) for k, v in done.forward.items()}
    return dataclasses.replace(done, func=func, forward={**edit.forward, **forward})


def _fill(new: Buffer, layout: Layout, value: Any, kind: str) -> Stmt:
    axes, loops = [], []
    for n, extent in enumerate(new.shape):
        domain = e.Range(p.const(0, kind), p.cast(kind, extent))
        axes.append(IterVar(domain, e.Var(f"v{n}", domain.min.dtype)))
        loops.append((e.Var(f"ax{n}", domain.min.dtype), domain.extent))
    indices = tuple(axis.var for axis in axes)
    number = p.const(value, new.dtype) if isinstance(value, int | float) else value
    store = BufferStore(new, number, indices)
    block = Block(tuple(axes), (), (point(new, indices),), f"{new.name}_pad", store)
    values = dict(zip(layout.inverse.initial_indices, (of(var) for var, _ in loops), strict=True))
    unused = simplified(layout.unused, Context(values=values))
    body: Stmt = BlockRealize(tuple(var for var, _ in loops), unused, block)
    for var, extent in reversed(loops):
        body = For(var, p.const(0, kind), extent, ForKind.SERIAL, body)
    return body
