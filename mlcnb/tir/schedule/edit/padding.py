"""The padding of a layout, filled: by the block that makes the buffer, or by one of its own.

A layout of 14 elements as 4 x 4 leaves two elements over. Where one elementwise block writes the
whole buffer, it is run over the new layout, and the buffer keeps one writer; else (a reduction,
several writers, loops that were split) a second block behind it writes the padding. That of an
input is the caller's to fill: a block in front says so, by T.assume.
"""

from __future__ import annotations

import dataclasses

from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.node import replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.edit.caching import home_of, index_dtype
from mlcnb.tir.schedule.edit.elementwise import (
    axis_bounds,
    hits,
    inverted,
    refreshed,
    substituted_value,
)
from mlcnb.tir.schedule.edit.layouts import Layout
from mlcnb.tir.schedule.edit.nests import axes_over, looped, own_nest, point
from mlcnb.tir.schedule.legality.promises import why_not_complete
from mlcnb.tir.schedule.record.state import Change, State, arrived
from mlcnb.tir.schedule.record.tree import Edit, Tree
from mlcnb.tir.stmt import Block, BufferStore, Evaluate, ForKind, IterVar, SeqStmt, Stmt

#: what stands in the padding: a number, or a function of the new indices
Value = IndexMap | e.PrimExpr


def padded(
    state: State,
    block: Block,
    buffers: tuple[Buffer, Buffer],
    layout: Layout,
    value: Value,
    done: Change,
) -> Change:
    """The change `done`, after which the new buffer is used, with the padding filled too."""
    tree = state.tree
    old, new = buffers
    writers = [b for b in tree.blocks if any(r.buffer is old for r in b.writes)]
    inner = [b for b in writers if not any(tree.inside(x, b) and x is not b for x in writers)]
    made = Tree(done.func)
    if not inner:
        if home_of(tree, old) is not None or _is_stored(tree, old):
            raise state.refusal(
                f"transform_layout: no block writes {old.name}, so its padding cannot be filled",
                block,
                hint="cache_read it, and lay out the copy",
            )
        edit = Edit(made)
        top = made.root.body
        first = top.seq[0] if isinstance(top, SeqStmt) else top
        edit.before(first, _assumption(new, layout, value, index_dtype(tree, block)))
        return _after(done, edit)
    if len(writers) == 1:
        how = _elementwise(tree, inner[0], old)
        if how is not None:
            return _rewritten(made, inner[0], new, layout, value, how, done)
    last = arrived(done.forward, max(inner, key=lambda b: tree.position[b]))
    edit = Edit(made)
    top = made.child_towards(made.scope(last), made.realize(last))
    edit.after(top, _fill(new, layout, value, index_dtype(tree, block)))
    return _after(done, edit)


def _is_stored(tree: Tree, buffer: Buffer) -> bool:
    return any(isinstance(n, BufferStore) and n.buffer is buffer for n in walk(tree.func.body))


def _after(done: Change, edit: Edit) -> Change:
    """One change after another."""
    func = edit.done()
    forward = {k: arrived(edit.forward, v) for k, v in done.forward.items()}
    return dataclasses.replace(done, func=func, forward={**edit.forward, **forward})


def _fill(new: Buffer, layout: Layout, value: Value, kind: str) -> Stmt:
    """Loops over the new layout that write where nothing else does."""
    axes = axes_over(layout.shape, kind)
    indices = tuple(axis.var for axis in axes)
    store = BufferStore(new, p.cast(new.dtype, _at(value, indices)), indices)
    block = Block(axes, (), (point(new, indices),), f"{new.name}_pad", store)
    return looped(block, predicate=layout.padding_at(indices))


def _assumption(new: Buffer, layout: Layout, value: Value, kind: str) -> Stmt:
    """Loops over the new layout of an input that say what the caller has put into the padding."""
    axes = axes_over(layout.shape, kind)
    indices = tuple(axis.var for axis in axes)
    held = p.equal(BufferLoad(new, indices), p.cast(new.dtype, _at(value, indices)))
    told = p.logical_or(p.logical_not(layout.padding_at(indices)), held)
    body = Evaluate(e.Call(dtype("bool"), "tir.assume", (told,)))
    name = f"buffer_{new.name}_assumption"
    return looped(Block(axes, (point(new, indices),), (), name, body))


def _at(value: Value, indices: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    return value.map_indices(indices)[0] if isinstance(value, IndexMap) else value


@dataclasses.dataclass(frozen=True)
class _Elementwise:
    """A block that makes each element once: its axes as sums of `places`, the element's indices."""

    places: list[e.Var]
    values: dict[e.Var, Sum]


def _elementwise(tree: Tree, writer: Block, old: Buffer) -> _Elementwise | None:
    """How a block makes the elements of a buffer; None where its loops must stay as they are."""
    store = writer.body
    if not isinstance(store, BufferStore) or writer.init is not None:
        return None
    top = own_nest(tree, writer)
    if top is None or not _is_plain(tree, writer, top) or why_not_complete(tree, writer):
        return None
    places = [e.Var(f"place{n}", x.dtype) for n, x in enumerate(old.shape)]
    known = {v: _ends(x) for v, x in zip(places, old.shape, strict=True)}
    given = [of(v) for v in places]
    values = inverted(writer, store.indices, given, known)
    if values is None or not hits(store.indices, given, values, known):
        return None
    extents = dict(zip(places, old.shape, strict=True))
    if not all(_stays_within(values[a.var], a, extents, known) for a in writer.iter_vars):
        return None
    return _Elementwise(places, values)


def _ends(extent: e.PrimExpr) -> Bounds:
    count = of(extent).value
    return 0, None if count is None else count - 1


def _stays_within(
    value: Sum, axis: IterVar, extents: dict[e.Var, e.PrimExpr], known: dict[e.Var, Bounds]
) -> bool:
    """True if every element belongs to an instance of the block."""
    if value.only_atom in extents:
        whole = of(extents[value.only_atom])
        return of(axis.dom.min).value == 0 and of(axis.dom.extent).is_same(whole)
    low, high = value.bounds(known)
    first, count = of(axis.dom.min).value, of(axis.dom.extent).value
    if None in (low, high, first, count):
        return False
    return first <= low and high < first + count  # type: ignore[operator]


def _is_plain(tree: Tree, writer: Block, top: Stmt) -> bool:
    """True if the loops of a nest are serial and carry no marks."""
    loops = [x for x in tree.loops(writer) if tree.inside(x, top)]
    return all(x.kind is ForKind.SERIAL and not x.annotations for x in loops)


def _rewritten(
    made: Tree,
    writer: Block,
    new: Buffer,
    layout: Layout,
    value: Value,
    how: _Elementwise,
    done: Change,
) -> Change:
    """The writer run over the new layout, with the padding where there is no old element."""
    now = arrived(done.forward, writer)
    axes = axes_over(layout.shape, writer.iter_vars[0].var.dtype)
    indices = tuple(axis.var for axis in axes)
    known = axis_bounds(replace(writer, iter_vars=axes))
    element = Context(known, dict(zip(how.places, layout.old_at(indices), strict=True)))
    values = {v: of(x.expr(v.dtype), element) for v, x in how.values.items()}
    found = substituted_value(writer.body.value, values, known)  # type: ignore[attr-defined]
    filled = p.if_then_else(layout.padding_at(indices), _at(value, indices), found)
    block = refreshed(replace(now, iter_vars=axes, body=BufferStore(new, filled, indices)))
    edit = Edit(made)
    edit.put(own_nest(made, now) or made.realize(now), looped(block))
    edit.became(now, block)
    return _after(done, edit)
