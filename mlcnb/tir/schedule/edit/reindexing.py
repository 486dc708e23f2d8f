"""A copy between one block and a buffer that it accesses at one place, laid out by its axes.

    ... A[v_i + v_k] ...         v_i in 0..16, v_k in 0..3

    new buffer                   A_reindex of 16 x 3, or whatever a map of (v_i, v_k) makes of it
    copy                         A_reindex[v0, v1] = A[v0 + v1]
    in the block                 ... A_reindex[v_i, v_k] ...

What reindex, reindex_cache_read and reindex_cache_write share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlcnb.arith.extremes import at_most, extremes
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds
from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer, decl_buffer
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.edit.caching import index_dtype, refuse_views, replace_block
from mlcnb.tir.schedule.edit.elementwise import axis_bounds, loads_of
from mlcnb.tir.schedule.edit.layouts import Layout
from mlcnb.tir.schedule.edit.moving import axis_spans, full, limits
from mlcnb.tir.schedule.edit.nests import Nest, copying, point
from mlcnb.tir.schedule.edit.rebuild import BufferSwap, FreshCopy
from mlcnb.tir.schedule.legality import promises
from mlcnb.tir.schedule.legality.boxes import Side, spans
from mlcnb.tir.schedule.legality.regions import bindings, known_bounds, loops_below
from mlcnb.tir.schedule.legality.stored import why_unwritten
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.stmt import Block, BufferStore, For, IterType, IterVar, Stmt


def reindexed(
    state: State,
    name: str,
    block: Block,
    old: Buffer,
    is_write: bool,
    label: str,
    scope: str,
    index_map: IndexMap | None = None,
) -> Change:
    """The copy made, and the block changed to use it.

    Args:
        state: the program.
        name: of the primitive, for messages.
        block: the block.
        old: the buffer that it accesses.
        is_write: whether its writes are meant, or its reads.
        label: the name of the new buffer and of the block that copies.
        scope: the memory scope of the new buffer.
        index_map: from all axes of the block to the indices of the new buffer; without it, the
            axes that index the old one.
    """
    refuse_views(state, name, old, [block])
    indices = _indices(state, name, block, old)
    axes = [v for v in block.iter_vars if any(v.var in of(i).variables() for i in indices)]
    _refuse(state, name, block, old, indices, is_write)
    layout = _layout(state, name, block, old, axes, index_map)
    kind = index_dtype(state.tree, block)
    near = _near(layout, tuple(v.var for v in axes), block)
    shape = [_past_end(v) for v in axes] if layout is None else layout.shape
    new = decl_buffer(shape, old.dtype, label, scope)
    parent = _place(state, name, block, old, is_write)
    nest, copy = _copy(state, block, axes, indices, (old, new), layout, is_write, parent, kind)
    edit = state.edit()
    swap = BufferSwap(
        {old: new}, edit.forward, rule=lambda _: near, box=lambda _r, to: point(to, near)
    )
    replace_block(edit, block, swap)
    anchor = state.tree.child_towards(parent, state.tree.realize(block))
    (edit.after if is_write else edit.before)(anchor, nest)
    edit.allocate(state.tree.scope(block), new)
    return Change.of(edit, copy)


def axes_map(state: State, name: str, block: Block, given: Any) -> IndexMap:
    """The index map that a caller gives: a function of all axes of the block, or an IndexMap."""
    if isinstance(given, IndexMap):
        made = given
    else:
        kind = index_dtype(state.tree, block)
        made = IndexMap.from_func(given, len(block.iter_vars), index_dtype=kind)
    if len(made.initial_indices) != len(block.iter_vars):
        raise state.refusal(
            f"{name}: the index map takes {len(made.initial_indices)} indices, {name_of(block)} "
            f"has {len(block.iter_vars)} axes",
            block,
        )
    return made


def _layout(
    state: State,
    name: str,
    block: Block,
    old: Buffer,
    axes: list[IterVar],
    index_map: IndexMap | None,
) -> Layout | None:
    """The map as a layout over the axes that index the old buffer."""
    if index_map is None:
        return None
    places = dict(zip(index_map.initial_indices, block.iter_vars, strict=True))
    used = {places[v].var for x in index_map.final_indices for v in of(x).variables()}
    others = [v.var.name for v in block.iter_vars if v.var in used and v not in axes]
    if others:
        raise state.refusal(
            f"{name}: the index map uses {', '.join(others)}, which does not index {old.name}",
            block,
        )
    kept = tuple(v for v, axis in places.items() if axis in axes)
    reduced = IndexMap(kept, index_map.final_indices)
    return Layout(state, name, reduced, [_past_end(axis) for axis in axes], block)


def _past_end(axis: IterVar) -> e.PrimExpr:
    """The number after the last value of an axis: room for all of them, wherever it starts."""
    return p.add(axis.dom.min, axis.dom.extent)


def _near(layout: Layout | None, axes: tuple[e.Var, ...], block: Block) -> tuple[e.PrimExpr, ...]:
    """The indices of the new buffer for axes of the block, or for those of the copy."""
    return axes if layout is None else layout.indices(axes, axis_bounds(block))


def _indices(state: State, name: str, block: Block, buffer: Buffer) -> tuple[e.PrimExpr, ...]:
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
            f"{name}: {name_of(block)} accesses {buffer.name} with different indices", block
        )
    return tuple(_used(i, axis_bounds(block)) for i in found[0])


def _used(index: e.PrimExpr, known: Mapping[e.Var, Bounds]) -> e.PrimExpr:
    """An index without the axes that make no difference: co // 64 where co is below 64."""
    short = of(index, Context(known))
    return short.expr(index.dtype) if short.variables() < of(index).variables() else index


def _stores(n: Node) -> list[BufferStore]:
    return [x for x in walk(n) if isinstance(x, BufferStore)]


def _refuse(
    state: State,
    name: str,
    block: Block,
    old: Buffer,
    indices: tuple[e.PrimExpr, ...],
    is_write: bool,
) -> None:
    tree = state.tree
    known = axis_bounds(block)
    if not is_write and any(r.buffer is old for r in block.writes):
        raise state.refusal(
            f"{name}: {name_of(block)} writes {old.name} too", block, hint="cache_inplace"
        )
    ragged = promises.why_ragged(tree, block) or promises.why_offset(block)
    state.refuse_for(ragged, f"{name}: {name_of(block)} cannot be copied for", block)
    inner = axis_spans(block)
    for index, extent in zip(indices, old.shape, strict=True):
        ends = extremes(of(index), inner, known)
        within = ends is not None and at_most(ends[1].shifted(1), of(extent), known)
        if ends is None or not (within and at_most(of(0), ends[0], known)):
            raise state.refusal(
                f"{name}: {name_of(block)} may look outside of {old.name}, where a copy may not",
                block,
                hint="keep the padding in a block of its own",
            )
    if is_write:
        reason = promises.why_not_sole_writer(tree, block) or promises.why_overwrites(tree, block)
        if block.init is None and any(r.buffer is old for r in block.reads):
            reason = f"it updates what {old.name} held before"
        reason = reason or why_unwritten(block, old)
        state.refuse_for(reason, f"{name}: {name_of(block)} cannot be cached", block)
        if not runs_everywhere(tree, block, block.iter_vars):
            raise state.refusal(
                f"{name}: the predicate of {name_of(block)} keeps some of its instances from being "
                f"run, and the copy would write {old.name} for them",
                block,
            )
        if any(v.iter_type is not IterType.SPATIAL for i in indices for v in _axes_in(block, i)):
            raise state.refusal(f"{name}: a reduce axis indexes {old.name}", block)


def runs_everywhere(tree: Tree, block: Block, axes: Iterable[IterVar]) -> bool:
    """True if the predicate does no more than keep each of these axes within its domain."""
    said = limits(tree, block)
    if said is None:
        return False
    known = known_bounds(tree, block)
    for axis in axes:
        side = said.get(axis.var, full(axis))
        last, first = full(axis).high, full(axis).low
        if not all(at_most(last, x, known) for x in side.highs):
            return False
        if not all(at_most(x, first, known) for x in side.lows):
            return False
    return True


def _axes_in(block: Block, index: e.PrimExpr) -> list[IterVar]:
    used = of(index).variables()
    return [v for v in block.iter_vars if v.var in used]


def _place(state: State, name: str, block: Block, old: Buffer, is_write: bool) -> Stmt:
    """In which loop or block the copy goes."""
    tree = state.tree
    info = tree.info(tree.scope(block))
    scope = tree.scope(block)
    if is_write:
        readers = [b for b in info.readers.get(old, []) if b is not block]
        parent = tree.meeting([block], readers) if readers else scope
        inner = {x.loop_var for x in loops_below(tree, block, parent)}
        if promises.reduce_variables(tree, block) - inner:
            raise state.refusal(f"{name}: {old.name} is read while its reduction runs", block)
        return parent
    writers = info.writers.get(old, [])
    late = [w for w in writers if tree.position[w] > tree.position[block]]
    if late:
        raise state.refusal(f"{name}: {name_of(late[0])} writes {old.name} later", block)
    return tree.meeting(writers, [block]) if writers else scope


def _copy(
    state: State,
    block: Block,
    used: list[IterVar],
    indices: tuple[e.PrimExpr, ...],
    buffers: tuple[Buffer, Buffer],
    layout: Layout | None,
    is_write: bool,
    parent: Stmt,
    kind: str,
) -> tuple[Stmt, Block]:
    """The nest that copies, over the values that the axes take inside `parent`."""
    tree = state.tree
    old, new = buffers
    context = bindings(tree, block)
    below = loops_below(tree, block, parent)
    inner = spans(below, context.bounds)
    running = {x.loop_var for x in below}
    nest = Nest(known_bounds(tree, parent), kind, keep_units=True)
    fresh = FreshCopy({})
    axes = []
    for n, axis in enumerate(used):
        ends = extremes(context.values[axis.var], inner, context.bounds)
        side = full(axis) if ends is None else Side([ends[0]], [ends[1]])
        nest.axis(side, axis.dom, layout is None or context.values[axis.var].uses(running))
        var = fresh.renew(axis.var, f"v{n}")
        axes.append(replace(axis, var=var, iter_type=IterType.SPATIAL))
    far = tuple(fresh.expr(i) for i in indices)
    copied = replace(block, iter_vars=tuple(axes))
    near = _near(layout, tuple(axis.var for axis in axes), copied)
    source, target = ((new, near), (old, far)) if is_write else ((old, far), (new, near))
    copy = copying(copied.iter_vars, source, target, new.name)
    return nest.wrap(copy), copy
