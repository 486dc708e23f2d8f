"""What the primitives that put a buffer in front of another share: choosing, naming, swapping."""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core.node import replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.schedule.handles import name_of
from mlcnb.tir.schedule.rebuild import Rebuilder
from mlcnb.tir.schedule.state import State
from mlcnb.tir.schedule.tree import Edit, Tree


def chosen_buffer(
    state: State, primitive: str, block: s.Block, regions: Sequence[BufferRegion], index: int
) -> Buffer:
    """The buffer of the region number `index` of a block's reads or writes."""
    if not 0 <= index < len(regions):
        kind = "reads" if regions is block.reads else "writes"
        names = ", ".join(r.buffer.name for r in regions) or "nothing"
        raise state.refusal(
            f"{primitive}: {name_of(block)} has no buffer {index} among its {kind}",
            block,
            hint=f"it {kind} {names}",
        )
    return regions[index].buffer


def cached(buffer: Buffer, scope: str) -> Buffer:
    """A compact buffer like `buffer` in another memory scope, named after both."""
    name = f"{buffer.name}_{scope.replace('.', '_')}"
    data = Var(name, dtype("handle"), (str(buffer.dtype), scope))
    return replace(buffer, name=name, data=data, strides=(), elem_offset=None, offset_factor=0)


def index_dtype(tree: Tree, block: s.Block) -> str:
    """The dtype of the loop variables around a block (of its axes, where there are none)."""
    for loop in tree.loops(block):
        return loop.loop_var.dtype
    for axis in block.iter_vars:
        return axis.var.dtype
    return "int32"


def replace_block(edit: Edit, block: s.Block, rebuilder: Rebuilder) -> None:
    """Put what `rebuilder` makes of a block in its place."""
    edit.put(block, rebuilder.stmt(block))


def refuse_views(state: State, primitive: str, buffer: Buffer, users: Sequence[s.Block]) -> None:
    """Refuse where a block gives the buffer another name, which would be left behind."""
    for user in users:
        if any(m.source.buffer is buffer for m in user.match_buffers):
            raise state.refusal(
                f"{primitive}: {name_of(user)} looks at {buffer.name} through match_buffer", user
            )
