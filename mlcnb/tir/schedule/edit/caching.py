"""What the primitives that put a buffer in front of another share: choosing, naming, swapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mlcnb.core.node import FrozenDict, Node, replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.edit.rebuild import Rebuilder
from mlcnb.tir.schedule.legality.dependence import is_covered
from mlcnb.tir.schedule.legality.promises import why_skipped
from mlcnb.tir.schedule.legality.stored import why_unwritten
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.schedule.record.tree import Edit, Tree

#: the memories that TVM names; shared, local and global ones may carry a tag, as in shared.dyn
_SCOPES = re.compile(
    r"(global|shared|local)(\.[A-Za-z0-9_.]+)?|warp|texture"
    r"|wmma\.(matrix_a|matrix_b|accumulator)|m16n8k8\.matrix[ABC]|metal\.simdgroup"
)


def refuse_scope(state: State, primitive: str, scope: str, where: Node) -> None:
    """Refuse a memory scope that no machine has."""
    if not isinstance(scope, str) or not _SCOPES.fullmatch(scope):
        raise state.refusal(
            f"{primitive}: {scope!r} is no memory scope",
            where,
            hint="global, shared, shared.dyn, local, warp, wmma.matrix_a, wmma.matrix_b, "
            "wmma.accumulator",
        )


def chosen_buffer(
    state: State,
    primitive: str,
    block: s.Block,
    regions: Sequence[BufferRegion],
    index: int | str | Buffer,
) -> Buffer:
    """The buffer of a region of a block's reads or writes: by number, name, or itself."""
    return regions[chosen_index(state, primitive, block, regions, index)].buffer


def chosen_index(
    state: State,
    primitive: str,
    block: s.Block,
    regions: Sequence[BufferRegion],
    index: int | str | Buffer,
) -> int:
    """The number of the region that is meant."""
    buffers = [r.buffer for r in regions]
    named = [n for n, b in enumerate(buffers) if b is index or b.name == index]
    if len(named) == 1:
        return named[0]
    if type(index) is int and 0 <= index < len(regions):
        return index
    kind = "reads" if regions is block.reads else "writes"
    names = ", ".join(b.name for b in buffers) or "nothing"
    asked = index.name if isinstance(index, Buffer) else index
    raise state.refusal(
        f"{primitive}: {name_of(block)} has no buffer {asked} among its {kind}",
        block,
        hint=f"it {kind} {names}",
    )


def named_buffer(state: State, primitive: str, block: s.Block, given: Any) -> Buffer:
    """The buffer that an argument names: ("read", n), ("write", n), a name, or itself."""
    there = [r.buffer for r in (*block.reads, *block.writes)]
    if isinstance(given, Buffer) and given in there:
        return given
    if isinstance(given, str):
        found = next((b for b in there if b.name == given), None)
        if found is not None:
            return found
    if isinstance(given, tuple | list) and len(given) == 2 and given[0] in ("read", "write"):
        regions = block.reads if given[0] == "read" else block.writes
        if 0 <= given[1] < len(regions):
            return regions[given[1]].buffer
    reads = ", ".join(r.buffer.name for r in block.reads) or "nothing"
    writes = ", ".join(r.buffer.name for r in block.writes) or "nothing"
    raise state.refusal(
        f"{primitive}: {given!r} is no buffer of {name_of(block)}",
        block,
        hint=f'("read", n) of {reads}, or ("write", n) of {writes}',
    )


def index_of(regions: Sequence[BufferRegion], buffer: Buffer) -> int:
    """The number of a buffer's region: how a trace names it."""
    return next(n for n, r in enumerate(regions) if r.buffer is buffer)


def place_of(block: s.Block, buffer: Buffer, given: Any) -> Any:
    """The argument that names a buffer as a trace keeps it: ("read", n) or ("write", n)."""
    if isinstance(given, tuple | list):
        return tuple(given)
    if any(r.buffer is buffer for r in block.reads):
        return ("read", index_of(block.reads, buffer))
    return ("write", index_of(block.writes, buffer))


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


def loops_at(tree: Tree, place: s.Stmt) -> list[s.For]:
    """The loops that a statement put into a loop or block would stand in."""
    return [*tree.loops(place), place] if isinstance(place, s.For) else []


def last_of(place: s.Stmt) -> s.Stmt:
    """The last statement in a loop or block."""
    body = place.body  # type: ignore[attr-defined]
    return body.seq[-1] if isinstance(body, s.SeqStmt) else body  # type: ignore[no-any-return]


def refuse_uncovered(
    state: State, primitive: str, readers: Iterable[s.Block], buffer: Buffer, block: s.Block
) -> None:
    """Refuse readers of elements that the block has not written in the same iteration.

    Raises:
        ScheduleError: naming the first of them.
    """
    for reader in readers:
        if not is_covered(state.tree, reader, buffer, [block]):
            raise state.refusal(
                f"{primitive}: {name_of(reader)} may read elements of {buffer.name} that "
                f"{name_of(block)} does not write in the same iteration",
                reader,
            )


def refuse_gaps(state: State, primitive: str, writer: s.Block, buffer: Buffer) -> None:
    """Refuse a block that leaves elements as they were, which a copy of all would overwrite.

    Raises:
        ScheduleError: saying which.
    """
    unwritten = why_unwritten(writer, buffer)
    if unwritten:
        raise state.refusal(
            f"{primitive}: {unwritten}, and the copy would write them always", writer
        )
    skipped = None if writer.init is None else why_skipped(state.tree, writer)
    message = f"{primitive}: {name_of(writer)} updates what {buffer.name} held before"
    state.refuse_for(skipped, message, writer)


def refuse_parameter(
    state: State, primitive: str, block: s.Block, buffer: Buffer, hint: str | None = None
) -> None:
    """Refuse a buffer that the caller of the function gives it."""
    if home_of(state.tree, buffer) is None:
        raise state.refusal(
            f"{primitive}: {buffer.name}, which {name_of(block)} writes, is a parameter",
            block,
            hint=hint,
        )


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


def with_views(
    tree: Tree, old: Buffer, changed: Callable[[Buffer, int], Buffer]
) -> dict[Buffer, Buffer]:
    """What a buffer and all views of it become.

    `changed` is given each, and how many leading dimensions of the buffer it does not have.
    """
    lost = {old: 0}
    for match in (m for b in tree.blocks for m in b.match_buffers):
        source = match.source.buffer
        if source in lost:
            lost[match.buffer] = lost[source] + source.ndim - match.buffer.ndim
    return {buffer: changed(buffer, fewer) for buffer, fewer in lost.items()}


def home_of(tree: Tree, buffer: Buffer) -> s.Block | None:
    """The block that allocates a buffer; None for a parameter."""
    return next((b for b in tree.blocks if buffer in b.alloc_buffers), None)


def users_of(tree: Tree, buffer: Buffer) -> list[s.Block]:
    """All blocks, of every scope, that read or write a buffer."""
    return [b for b in tree.blocks if any(r.buffer is buffer for r in (*b.reads, *b.writes))]


def replaced_everywhere(
    state: State, old: Buffer, new: Buffer, edit: Edit, swap: Rebuilder
) -> PrimFunc:
    """Every use of a buffer rebuilt by `swap`, and its declaration; gives the function to finish.

    The declaration is an allocation of a block, or an entry of the function's `buffer_map`.
    """
    home = home_of(state.tree, old) or state.tree.root
    made = swap.stmt(home)
    buffers = tuple(new if b is old else b for b in made.alloc_buffers)
    made = replace(made, alloc_buffers=buffers)
    edit.put(home, made)
    edit.became(home, made)
    params = {k: new if b is old else b for k, b in state.func.buffer_map.items()}
    return replace(state.func, buffer_map=FrozenDict(params))
