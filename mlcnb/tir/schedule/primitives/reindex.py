"""reindex: what a block reads or writes of a buffer gets a buffer laid out by the block's axes.

with T.block("conv"):                              A_reindex = T.alloc_buffer((16, 3))
    ... A[v_i + v_k] ...             ->            with T.block("A_reindex"):
                                                       A_reindex[v0, v1] = A[v0 + v1]
                                                   with T.block("conv"):
                                                       ... A_reindex[v_i, v_k] ...

It turns a convolution into a matrix product (im2col).
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.schedule.caching import index_dtype, replace_block
from mlcnb.tir.schedule.elementwise import axis_bounds, loads_of
from mlcnb.tir.schedule.handles import name_of
from mlcnb.tir.schedule.legality import (
    reduce_variables,
    why_not_sole_writer,
    why_overwrites,
    why_ragged,
)
from mlcnb.tir.schedule.nests import Nest, point
from mlcnb.tir.schedule.primitives.transform_layout import named_buffer
from mlcnb.tir.schedule.reading import of
from mlcnb.tir.schedule.rebuild import BufferSwap, FreshCopy
from mlcnb.tir.schedule.regions import (
    Side,
    bindings,
    extremes,
    known_bounds,
    loops_below,
    spans,
)
from mlcnb.tir.schedule.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, For, IterType, IterVar, Stmt


def reindex(state: State, block: Block, buffer: Any) -> Change:
    """Put a copy between a block and a buffer, indexed by the axes that the block indexes it with.

    Args:
        state: the program.
        block: a block that accesses the buffer with one tuple of indices.
        buffer: ("read", n) or ("write", n), its name, or the Buffer.

    Returns:
        The block that copies: before `block` for an input, behind it for an output.

    Raises:
        ScheduleError: the accesses differ, leave the buffer (guarded padding), or others write it
            too.
    """
    old = named_buffer(state, "reindex", block, buffer)
    is_write = any(r.buffer is old for r in block.writes)
    indices = _indices(state, block, old)
    axes = [v for v in block.iter_vars if any(v.var in of(i).variables() for i in indices)]
    _refuse(state, block, old, indices, is_write)
    kind = index_dtype(state.tree, block)
    shape = [v.dom.extent for v in axes]
    new = decl_buffer(shape, old.dtype, f"{old.name}_reindex")
    parent = _place(state, block, old, is_write)
    nest, copy = _copy(state, block, axes, indices, (old, new), is_write, parent, kind)
    edit = state.edit()
    places = tuple(v.var for v in axes)
    swap = BufferSwap(
        {old: new},
        edit.forward,
        rule=lambda _: places,
        box=lambda _r, to: point(to, places),
    )
    replace_block(edit, block, swap)
    anchor = state.tree.child_towards(parent, state.tree.realize(block))
    (edit.after if is_write else edit.before)(anchor, nest)
    edit.allocate(state.tree.scope(block), new)
    return Change.of(edit, copy)


def _indices(state: State, block: Block, buffer: Buffer) -> tuple[e.PrimExpr, ...]:
    """The one tuple of indices of all accesses."""
    found = [load.indices for load in loads_of(block.body, buffer)]
    for part in (block.body, block.init):
        if part is not None:
            found += [s.indices for s in _stores(part) if s.buffer is buffer]
    own = {v.var for v in block.iter_vars}
    inner = {x.loop_var for x in walk(block) if isinstance(x, For)}
    inner |= {v.var for x in walk(block) if isinstance(x, Block) for v in x.iter_vars} - own
    foreign = any(of(i).uses(inner) for x in found for i in x)
    if not found or foreign or any(not structural_equal(found[0], x) for x in found[1:]):
        raise state.refusal(
            f"reindex: {name_of(block)} accesses {buffer.name} with different indices", block
        )
    return found[0]


def _stores(n: Node) -> list[BufferStore]:
    return [x for x in walk(n) if isinstance(x, BufferStore)]


def _refuse(
    state: State, block: Block, old: Buffer, indices: tuple[e.PrimExpr, ...], is_write: bool
) -> None:
    tree = state.tree
    known = axis_bounds(block)
    ragged = why_ragged(tree, block)
    if ragged:
        raise state.refusal(f"reindex: {name_of(block)} cannot be copied for: {ragged}", block)
    for index, extent in zip(indices, old.shape, strict=True):
        low, high = of(index).minus(of(0)).bounds(known)
        last = of(index).minus(of(extent)).bounds(known)[1]
        if low is None or low < 0 or last is None or last >= 0:
            raise state.refusal(
                f"reindex: {name_of(block)} may look outside of {old.name}, where a copy may not",
                block,
                hint="keep the padding in a block of its own",
            )
    if is_write:
        reason = why_not_sole_writer(tree, block) or why_overwrites(tree, block)
        if block.init is None and any(r.buffer is old for r in block.reads):
            reason = f"it updates what {old.name} held before"
        if reason:
            raise state.refusal(f"reindex: {name_of(block)} cannot be cached: {reason}", block)
        if any(v.iter_type is not IterType.SPATIAL for i in indices for v in _axes_in(block, i)):
            raise state.refusal(f"reindex: a reduce axis indexes {old.name}", block)


def _axes_in(block: Block, index: e.PrimExpr) -> list[IterVar]:
    used = of(index).variables()
    return [v for v in block.iter_vars if v.var in used]


def _place(state: State, block: Block, old: Buffer, is_write: bool) -> Stmt:
    """In which loop or block the copy goes."""
    tree = state.tree
    info = tree.info(tree.scope(block))
    scope = tree.scope(block)
    if is_write:
        readers = [b for b in info.readers.get(old, []) if b is not block]
        parent = tree.meeting([block], readers) if readers else scope
        inner = {x.loop_var for x in loops_below(tree, block, parent)}
        if reduce_variables(tree, block) - inner:
            raise state.refusal(f"reindex: {old.name} is read while its reduction runs", block)
        return parent
    writers = info.writers.get(old, [])
    late = [w for w in writers if tree.position[w] > tree.position[block]]
    if late:
        raise state.refusal(f"reindex: {name_of(late[0])} writes {old.name} later", block)
    return tree.meeting(writers, [block]) if writers else scope


def _copy(
    state: State,
    block: Block,
    used: list[IterVar],
    indices: tuple[e.PrimExpr, ...],
    buffers: tuple[Buffer, Buffer],
    is_write: bool,
    parent: Stmt,
    kind: str,
) -> tuple[Stmt, Block]:
    """The nest that copies, over the values that the axes take inside `parent`."""
    tree = state.tree
    old, new = buffers
    context = bindings(tree, block)
    inner = spans(loops_below(tree, block, parent), context.bounds)
    nest = Nest(known_bounds(tree, parent), kind, keep_units=True)
    fresh = FreshCopy({})
    axes = []
    for n, axis in enumerate(used):
        ends = extremes(context.values[axis.var], inner, context.bounds)
        first = of(axis.dom.min)
        whole = Side([first], [first.plus(of(axis.dom.extent)).shifted(-1)])
        nest.axis(whole if ends is None else Side([ends[0]], [ends[1]]), axis.dom)
        var = fresh.renew(axis.var, f"v{n}")
        axes.append(replace(axis, var=var, iter_type=IterType.SPATIAL))
    far = tuple(fresh.expr(i) for i in indices)
    near = tuple(axis.var for axis in axes)
    source, target = ((new, near), (old, far)) if is_write else ((old, far), (new, near))
    copy = Block(
        tuple(axes),
        (point(*source),),
        (point(*target),),
        new.name,
        BufferStore(target[0], BufferLoad(*source), target[1]),
    )
    return nest.wrap(copy), copy
