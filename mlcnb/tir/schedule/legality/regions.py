"""What part of a buffer a block touches, over the loops below some place.

    for i_1 in range(4):                                    over i_1:
        with T.block("B"): v = i_0 * 4 + i_1; B[v + 1]       B[i_0 * 4 + 1 : i_0 * 4 + 5]

Of what a block writes a box is exact only where the block surely stores all that it says.

Most steps leave most blocks where they are, in the same loops: what was found out about such a one
in the tree before (its axes, its boxes) holds in the next tree, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Bounds
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.edges import ends_of
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.boxes import Box, Side, box_over
from mlcnb.tir.schedule.legality.stored import stores_all
from mlcnb.tir.schedule.record.tree import Tree

#: what holds of a block, by where it stands (`_place`): its axes; its regions over loops
_bound: WeakKeyDictionary[s.Block, dict[Any, Context]] = WeakKeyDictionary()
_boxes: WeakKeyDictionary[s.Block, dict[Any, Box]] = WeakKeyDictionary()


def _place(tree: Tree, block: s.Block) -> Any:
    """All that a block's axes and what it touches depend on beside itself: what its axes are bound
    to, on what condition it runs, and the loops and blocks around it.
    """
    found = tree.facts.get((_place, block))
    if found is None:
        realize = tree.realize(block)
        around: list[Any] = []
        for up in tree.ancestors(realize):
            if isinstance(up, s.For):
                around += (up.loop_var, up.min, up.extent)
            elif isinstance(up, s.Block):
                around.append(up.iter_vars)
        found = realize.iter_values, realize.predicate, tuple(around)
        tree.facts[_place, block] = found
    return found


def known_bounds(tree: Tree, n: s.Stmt) -> dict[e.Var, Bounds]:
    """Constant bounds of all loop variables and axes that can be seen at `n`, its own if it is a
    block.
    """
    found = tree.facts.get((known_bounds, n))
    if found is None:
        found = tree.facts[known_bounds, n] = _known_bounds(tree, n)
    return {**found}


def _known_bounds(tree: Tree, n: s.Stmt) -> dict[e.Var, Bounds]:
    found: dict[e.Var, Bounds] = {}
    above = [n, *tree.ancestors(n)]
    for up in above:
        if isinstance(up, s.For):
            found[up.loop_var] = ends_of(up)
        elif isinstance(up, s.Block):
            for axis in up.iter_vars:
                found[axis.var] = ends_of(axis.dom)
    return found


def symbols(func: PrimFunc) -> list[e.Var]:
    """The integers that a function is given: parameters, and variables in the shapes of buffers."""
    given = [v for v in func.params if v not in func.buffer_map]
    shapes = (v for b in func.buffers for n in b.shape for v in variables_of(n))
    return list(dict.fromkeys((*given, *shapes)))


def dimensions(func: PrimFunc) -> dict[e.Var, Bounds]:
    """The variables that are a dimension of a parameter: none of them is negative."""
    shapes = (n for buffer in func.buffers for n in buffer.shape)
    return {n: (0, None) for n in shapes if isinstance(n, e.Var)}


def bindings(tree: Tree, block: s.Block) -> Context:
    """The axes of a block as sums of the loop variables around it, and the bounds of those."""
    found = tree.facts.get((bindings, block))
    if found is None:
        known, place = _bound.setdefault(block, {}), _place(tree, block)
        if place not in known:
            known[place] = _bindings(tree, block)
        found = tree.facts[bindings, block] = known[place]
    return Context({**found.bounds}, {**found.values})


def _bindings(tree: Tree, block: s.Block) -> Context:
    realize = tree.realize(block)
    known = known_bounds(tree, realize)
    context = Context(bounds=known)
    values = {
        axis.var: of(value, context)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
    }
    return Context(known, values)


def loops_below(tree: Tree, block: s.Block, outer: s.Stmt) -> list[s.For]:
    """The loops around `block` that stand inside `outer` (a loop or the block's scope)."""
    loops = tree.loops(block)
    if outer in loops:
        return loops[loops.index(outer) + 1 :]  # type: ignore[arg-type]
    return [x for x in loops if tree.inside(x, outer)]


def box_of(
    tree: Tree,
    block: s.Block,
    region: BufferRegion,
    below: s.Stmt,
    context: Context | None = None,
    also: Sequence[s.For] = (),
    predicate: e.PrimExpr | None = None,
) -> Box:
    """The box that one region of a block covers over the loops that stand inside `below`.

    also: loops further out that are run over too. predicate: the conditions that count; all that
    the block stands under, if it is not given.
    """
    loops = [*also, *loops_below(tree, block, below)]
    if context is not None:
        return _box_of(tree, block, region, loops, context, predicate)
    known = _boxes.setdefault(block, {})
    ranges = tuple(x for loop in loops for x in (loop.loop_var, loop.min, loop.extent))
    key = region, _place(tree, block), ranges, predicate
    if key not in known:
        known[key] = _box_of(tree, block, region, loops, bindings(tree, block), predicate)
    found = known[key]
    return Box(found.buffer, [Side([*x.lows], [*x.highs]) for x in found.sides], found.exact)


def _box_of(
    tree: Tree,
    block: s.Block,
    region: BufferRegion,
    loops: Sequence[s.For],
    context: Context,
    predicate: e.PrimExpr | None,
) -> Box:
    if predicate is None:
        predicate = tree.realize(block).predicate
    box = box_over(region, loops, predicate, context)
    if box.exact and region in block.writes:
        box.exact = stores_all(block, region)
    return box


def boxes_of(
    tree: Tree,
    blocks: Iterable[s.Block],
    side: str,
    buffer: Buffer,
    below: s.Stmt,
    also: Sequence[s.For] = (),
) -> list[Box]:
    """`box_of` for all that blocks say they touch of a buffer; side: "reads" or "writes"."""
    regions = ((b, r) for b in blocks for r in getattr(b, side) if r.buffer is buffer)
    return [box_of(tree, b, r, below, also=also) for b, r in regions]
