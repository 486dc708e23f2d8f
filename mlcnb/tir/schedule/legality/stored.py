"""Does a block store all that it says it writes?

    T.writes(B[v * 4:v * 4 + 4])
    B[v * 4] = A[v]                 no: B[v * 4 + 1] keeps what was there before,
    B[v * 4 + 3] = A[v]             which a copy of what the block writes would replace

What is said may be more than is stored: the smallest box that holds all stores, or what a person
wrote. A copy of it, or a reader that takes it for written, goes wrong. What happens behind a
pointer is not seen, and believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.arith.atoms import structure_key
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds
from mlcnb.core.node import replace as with_fields
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import Access
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.schedule.legality.boxes import (
    Box,
    Side,
    box_over,
    conjuncts,
    constant_bounds,
    inside,
)
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.tree import sub_stmts

#: stores of one block that are put together, at most
MOST = 256
#: blocks that schedules look at again and again, and which of their regions are stored
_known: WeakKeyDictionary[s.Block, dict[BufferRegion, bool]] = WeakKeyDictionary()


def stores_all(block: s.Block, region: BufferRegion) -> bool:
    """True if an instance of a block surely stores every element of a region that it writes."""
    if _is_one_store(block.body, region):
        return True
    known = _known.setdefault(block, {})
    if region not in known:
        known[region] = _stores_all(block, region)
    return known[region]


def why_unwritten(block: s.Block, buffer: Buffer) -> str | None:
    """The reason why an instance may leave out elements that it says it writes: it stores them on
    a condition, and nothing else in it stores them for sure; or not at all.
    """
    sure, perhaps = _keys(block, {buffer})
    if not perhaps <= sure:
        return f"{name_of(block)} writes elements of {buffer.name} on a condition"
    if all(stores_all(block, r) for r in block.writes if r.buffer is buffer):
        return None
    return f"{name_of(block)} does not store all that it says it writes of {buffer.name}"


def _is_one_store(n: s.Stmt, region: BufferRegion) -> bool:
    """The common case: one store, of just the element that is said."""
    return (
        isinstance(n, s.BufferStore)
        and n.buffer is region.buffer
        and n.predicate is None
        and all(
            p.as_int(side.extent) == 1 and of(side.min).is_same(of(index))
            for side, index in zip(region.region, n.indices, strict=True)
        )
    )


def _stores_all(block: s.Block, region: BufferRegion) -> bool:
    axes = {
        axis.var: constant_bounds(axis.dom.min, axis.dom.extent, {}) for axis in block.iter_vars
    }
    found = [a for a in _writes(block) if a.buffer is region.buffer]
    if any(a.indices is None and not a.scope.conditions for a in found):
        return True
    sure = _keys(block, {region.buffer})[0]
    boxes = [box for a in found[:MOST] for box in _stored_by(a, axes, sure)]
    said = box_over(region, (), p.const(True), Context(axes))
    return any(x.exact and inside(said, x, axes) for x in _joined(boxes, axes))


def _writes(block: s.Block) -> Iterator[Access]:
    """What an instance writes, in its init or after it, by its own axes."""
    axes = tuple(axis.var for axis in block.iter_vars)
    told = [r.buffer for r in block.writes]
    for part in (block.init, block.body):
        if part is not None:
            alone = with_fields(block, init=None, body=part)
            reading = Reading(s.BlockRealize(axes, p.const(True), alone), told)
            yield from (a for a in reading.accesses if a.is_write)


def _stored_by(access: Access, axes: Mapping[e.Var, Bounds], sure: set[Any]) -> Iterator[Box]:
    """The box that one store fills in an instance of the block.

    sure: indices at which the block stores whatever the conditions are.
    """
    loops = [x for x in access.loops if isinstance(x, s.For)]
    if access.is_masked or len(loops) < len(access.loops):
        return
    bounds = dict(axes)
    for x in loops:
        bounds[x.loop_var] = constant_bounds(x.min, x.extent, bounds)
    context = Context(bounds)
    for var, value in access.scope.values:
        context = Context(bounds, {**context.values, var: of(value, context)})
    always = structure_key(access.node.indices) in sure
    condition = p.const(True) if always else p.all_of(*access.scope.conditions)
    taken = BufferRegion(access.buffer, tuple(map(_taken, access.indices or ())))
    yield box_over(taken, loops, condition, context)


def _taken(index: e.PrimExpr) -> e.Range:
    """The elements that an index stands for: several in a row of a vector."""
    if isinstance(index, e.Ramp) and p.as_int(index.stride) == 1:
        return e.Range(index.base, p.cast(index.base.dtype, index.lanes))
    return e.Range(index, p.const(1, index.dtype.element))


def _joined(boxes: list[Box], known: Mapping[e.Var, Bounds]) -> list[Box]:
    """The boxes, and those that stores make together that lie side by side."""
    found: list[Box] = []
    for box in boxes:
        if not box.exact:
            continue
        made: Box | None = box
        while made is not None:
            box, made = made, None
            for other in found:
                made = _together(other, box) or _together(box, other)
                if made is not None:
                    found.remove(other)
                    break
        found.append(box)
    return found


def _together(a: Box, b: Box) -> Box | None:
    """One box, where `b` begins in `a` or right behind it, and they differ in one dimension."""
    parts = [*a.sides, *b.sides]
    if any(len(x.lows) > 1 or len(x.highs) > 1 for x in parts):
        return None
    apart = [n for n, (x, y) in enumerate(zip(a.sides, b.sides, strict=True)) if not _alike(x, y)]
    if not apart:
        return a
    if len(apart) > 1:
        return None
    x, y = a.sides[apart[0]], b.sides[apart[0]]
    first, gap, more = (
        v.value for v in (y.low.minus(x.low), y.low.minus(x.high), y.high.minus(x.high))
    )
    if first is None or gap is None or more is None or first < 0 or gap > 1:
        return None
    sides = list(a.sides)
    sides[apart[0]] = Side([x.low], [y.high if more > 0 else x.high])
    return replace(a, sides=sides)


def _alike(x: Side, y: Side) -> bool:
    return x.low.is_same(y.low) and x.high.is_same(y.high)


#: indices at which a statement stores for sure, and at which it may
Keys = tuple[set[Any], set[Any]]


def _keys(n: s.Stmt | s.Block, names: set[Buffer]) -> Keys:
    match n:
        case s.Block():
            names = names | {m.buffer for m in n.match_buffers if m.source.buffer in names}
            sure, perhaps = _keys(n.body, names)
            return (sure if n.init is None else sure | _keys(n.init, names)[0]), perhaps
        case s.BufferStore():
            found = {structure_key(n.indices)} if n.buffer in names else set()
            return (found, set()) if n.predicate is None else (set(), found)
        case s.BlockRealize():
            sure, perhaps = _keys(n.block, names)
            return (set(), sure | perhaps) if conjuncts(n.predicate) else (sure, perhaps)
    return _either(n, [_keys(x, names) for x in sub_stmts(n)])


def _either(n: s.Stmt, parts: list[Keys]) -> Keys:
    """What the statements in one store: all of them run, or one of them on a condition."""
    sure = [x[0] for x in parts]
    every: set[Any] = set().union(*sure)
    perhaps: set[Any] = set().union(*(x[1] for x in parts))
    if not isinstance(n, s.IfThenElse | s.While):
        return every, perhaps
    return (sure[0] & sure[1] if len(sure) == 2 else set()), every | perhaps
