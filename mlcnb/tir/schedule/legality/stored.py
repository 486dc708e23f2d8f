"""Does a block store all that it says it writes?

    T.writes(B[v * 4:v * 4 + 4])
    B[v * 4] = A[v]                 no: B[v * 4 + 1] keeps what was there before,
    B[v * 4 + 3] = A[v]             which a copy of what the block writes would replace

What is said may be more than is stored: the smallest box that holds all stores, or what a person
wrote. A copy of it, or a reader that takes it for written, goes wrong. What happens behind a
pointer, in an instruction that gets it, is not seen, and what the block says of it is believed if
the instruction surely runs: `tensorize` puts none in the place of stores that leave something out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.arith.atoms import structure_key, variables_of
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds
from mlcnb.core.groups import grouped
from mlcnb.core.node import replace as with_fields
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import Access, InBlock, InLoop, Named, Under
from mlcnb.tir.analysis.edges import ends_of
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.schedule.legality.boxes import Box, Side, box_over, inside
from mlcnb.tir.schedule.record.handles import name_of

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
    if not all(_surely(block, _writes_of(block, buffer)).values()):
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
    axes = _axes(block)
    found = _writes_of(block, region.buffer)
    if any(a.indices is None and _always_runs(a) for a in found):
        return True
    sure = _surely(block, found)
    stores = [a for a in found if a.indices is not None][:MOST]
    boxes = [box for a in stores for box in _stored_by(a, axes, sure[_place(a)])]
    said = box_over(region, (), p.const(True), Context(axes))
    return any(x.exact and inside(said, x, axes) for x in _joined(boxes, axes))


def _writes_of(block: s.Block, buffer: Buffer) -> list[Access]:
    """What an instance writes of a buffer, in its init or after it, by its own axes."""
    axes = tuple(axis.var for axis in block.iter_vars)
    told = [r.buffer for r in block.writes]
    found: list[Access] = []
    for part in (block.init, block.body):
        if part is not None:
            alone = with_fields(block, init=None, body=part)
            reading = Reading(s.BlockRealize(axes, p.const(True), alone), told)
            found += (a for a in reading.accesses if a.is_write and a.buffer is buffer)
    return found


def _always_runs(access: Access) -> bool:
    """True if it stands under no condition, in no loop that may have no iteration."""
    loops = [x for x in access.loops if isinstance(x, s.For) and _runs(x, {})]
    return not access.scope.conditions and len(loops) == len(access.loops)


def _axes(block: s.Block) -> dict[e.Var, Bounds]:
    return {axis.var: ends_of(axis.dom) for axis in block.iter_vars}


def _variables(access: Access) -> set[e.Var]:
    """The variables that tell where an access is, by way of axes and names too."""
    context = Context()
    for var, value in access.scope.values:
        if not any(var is v for v in variables_of(value)):
            context = Context({}, {**context.values, var: of(value, context)})
    return {v for index in access.indices or () for v in of(_taken(index).min, context).variables()}


def _runs(loop: s.For, known: Mapping[e.Var, Bounds]) -> bool:
    """True if a loop surely has an iteration."""
    least = of(loop.extent).bounds(known)[0]
    return least is not None and least > 0


def _stored_by(access: Access, axes: Mapping[e.Var, Bounds], sure: bool) -> Iterator[Box]:
    """The box that one store fills in an instance of the block.

    sure: the block stores there whatever the conditions are.
    """
    loops = [x for x in access.loops if isinstance(x, s.For)]
    if access.is_masked or len(loops) < len(access.loops):
        return
    used, bounds = _variables(access), dict(axes)
    for x in loops:
        bounds[x.loop_var] = ends_of(x)
        if x.loop_var not in used and not _runs(x, bounds):
            return
    context = Context(bounds)
    for var, value in access.scope.values:
        context = Context(bounds, {**context.values, var: of(value, context)})
    condition = p.const(True) if sure else p.all_of(*access.scope.conditions)
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


#: what an access stands under: a branch and which one; or something that may not run at all
Path = tuple[tuple[Any, bool], ...]


def _surely(block: s.Block, writes: Sequence[Access]) -> dict[Any, bool]:
    """Where an instance stores elements of a buffer -> does it store there whatever holds?

    writes: those of the buffer, of one reading: the place of one may be itself.
    """
    known = (x for x in writes if x.indices is not None)
    paths = grouped((_place(access), _path(access, block)) for access in known)
    return {place: _is_sure(found) for place, found in paths.items()}


def _place(access: Access) -> Any:
    """The element that an access names: its indices, and what their variables stand for."""
    used = variables_of(access.indices)
    told: list[Any] = [access.buffer, structure_key(access.indices)]
    if any(isinstance(n, BufferLoad) for i in access.indices or () for n in walk(i)):
        told.append(access)  # what is in memory may change
    for scope in reversed(access.scope.around()):
        bound: dict[e.Var, Any] = {}
        match scope:
            case InLoop(node=s.For() as loop):
                bound = {loop.loop_var: (loop.min, loop.extent)}
            case Named(var=var, value=value):
                bound = {var: value}
            case InBlock(node=n) if len(scope.blocks) > 1:
                axes = (axis.var for axis in n.block.iter_vars)
                bound = dict(zip(axes, n.iter_values, strict=True))
        meant = tuple(x for var, x in bound.items() if var in used)
        if meant:
            told.append(structure_key(meant))
            used = (used - bound.keys()) | variables_of(meant)
    return tuple(told)


def _path(access: Access, block: s.Block) -> Path:
    """The branches that an access stands in, and what else may leave it out."""
    used, bounds = _variables(access), _axes(block)
    path: list[tuple[Any, bool]] = []
    for scope in access.scope.around():
        match scope:
            case Under(node=s.AssertStmt()):
                pass
            case Under(node=n, holds=holds):
                path.append((n, holds))
            case InLoop(node=s.For() as loop):
                bounds[loop.loop_var] = ends_of(loop)
                if loop.loop_var not in used and not _runs(loop, bounds):
                    path.append((loop, True))
            case InLoop(node=n):
                path.append((n, True))
    return (*path, (access, True)) if access.is_masked else tuple(path)


def _is_sure(paths: Sequence[Path]) -> bool:
    """True if one of the paths is taken whichever branches are."""
    if not all(paths):
        return True
    for n in {path[0][0] for path in paths}:
        if isinstance(n, s.IfThenElse):
            ways = [[x[1:] for x in paths if x[0] == (n, holds)] for holds in (True, False)]
            if all(way and _is_sure(way) for way in ways):
                return True
    return False
