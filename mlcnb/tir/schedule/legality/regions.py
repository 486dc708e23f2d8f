"""What part of a buffer a block touches, over the loops below some place: boxes with symbolic
corners.

    for i_1 in range(4):                                    over i_1:
        with T.block("B"): v = i_0 * 4 + i_1; B[v + 1]       B[i_0 * 4 + 1 : i_0 * 4 + 5]

A side is an intersection: all of `lows` <= index <= all of `highs`. `exact` says that every
element of
the box is touched; without it the box may be too large, never too small.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.digits import contiguous
from mlcnb.arith.extremes import Span, at_most, extremes
from mlcnb.arith.reading import Context, larger, of, smaller
from mlcnb.arith.sum import ZERO, Bounds, Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.tree import Tree


@dataclass
class Side:
    """One dimension of a box: its ends, and after them what a predicate cuts it to."""

    lows: list[Sum]
    highs: list[Sum]

    @property
    def low(self) -> Sum:
        """The lower end that the index itself has."""
        return self.lows[0]

    @property
    def high(self) -> Sum:
        """The upper end (inclusive) that the index itself has."""
        return self.highs[0]


@dataclass
class Box:
    """A part of a buffer: one side for each dimension."""

    buffer: Buffer
    sides: list[Side]
    exact: bool


def known_bounds(tree: Tree, n: s.Stmt) -> dict[e.Var, Bounds]:
    """Constant bounds of all loop variables and axes that can be seen at `n`, its own if it is a
    block.
    """
    found: dict[e.Var, Bounds] = {}
    above = [n, *tree.ancestors(n)]
    for up in above:
        if isinstance(up, s.For):
            found[up.loop_var] = constant_bounds(up.min, up.extent, found)
        elif isinstance(up, s.Block):
            for axis in up.iter_vars:
                found[axis.var] = constant_bounds(axis.dom.min, axis.dom.extent, found)
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


def constant_bounds(low: e.PrimExpr, extent: e.PrimExpr, known: Mapping[e.Var, Bounds]) -> Bounds:
    """First and last value of a range, None where symbolic."""
    first, count = p.as_int(low), p.as_int(extent)
    if first is not None:
        return first, None if count is None else first + count - 1
    return None, None


def bindings(tree: Tree, block: s.Block) -> Context:
    """The axes of a block as sums of the loop variables around it, and the bounds of those."""
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


def spans(loops: Iterable[s.For], known: Mapping[e.Var, Bounds]) -> dict[e.Var, Span]:
    """First and last value of each loop's variable, from the outermost in, as sums of what is
    outside.
    """
    found: dict[e.Var, Span] = {}
    context = Context(bounds=known)
    for loop in loops:
        first = of(loop.min, context)
        last = first.plus(of(loop.extent, context)).shifted(-1)
        low, high = extremes(first, found, known), extremes(last, found, known)
        found[loop.loop_var] = (low[0], high[1]) if low and high else (first, last)
    return found


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
    context = context or bindings(tree, block)
    loops = [*also, *loops_below(tree, block, below)]
    inner = spans(loops, context.bounds)
    sides, starts = [], []
    for axis, side in enumerate(region.region):
        low = of(side.min, context)
        width = of(side.extent, context).shifted(-1)
        ends = extremes(low, inner, context.bounds)
        end = extremes(low.plus(width), inner, context.bounds)
        starts.append((low, width.value))
        if ends is None or end is None:
            last = of(region.buffer.shape[axis]).shifted(-1)
            sides.append(Side([ZERO], [last]))
        else:
            sides.append(Side([ends[0]], [end[1]]))
    run_over = {x.loop_var for x in loops}
    ragged = any(of(x.extent).uses(run_over) or of(x.min).uses(run_over) for x in loops)
    exact = not ragged and contiguous(starts, run_over, context.bounds)
    if predicate is None:
        predicate = tree.realize(block).predicate
    exact = _clip(sides, starts, predicate, context, inner) and exact
    return Box(region.buffer, sides, exact)


def conjuncts(x: e.PrimExpr) -> list[e.PrimExpr]:
    """The conditions that a conjunction is made of; none for true."""
    if isinstance(x, e.And):
        return conjuncts(x.a) + conjuncts(x.b)
    return [] if p.is_const(x, 1) else [x]


def _clip(
    sides: list[Side],
    starts: list[tuple[Sum, int | None]],
    predicate: e.PrimExpr,
    context: Context,
    inner: Mapping[e.Var, Span],
) -> bool:
    """Cut the sides where the predicate bounds an index; False if it says something else too."""
    understood = True
    indexed = {v for start, _ in starts for v in start.variables()}
    for condition in conjuncts(predicate):
        limit = limit_of(condition, context)
        if limit is None:
            understood = False
            continue
        bounded, last = limit
        if bounded.uses(inner) and not bounded.uses(indexed):
            first = extremes(bounded, inner, context.bounds)
            happens = first is not None and at_most(first[0], last, context.bounds)
            understood = understood and happens
        else:
            understood = _cut_sides(sides, starts, bounded, last) and understood
    return understood


def _cut_sides(
    sides: list[Side], starts: list[tuple[Sum, int | None]], bounded: Sum, last: Sum
) -> bool:
    """Cut the sides whose index is `bounded`, up to a constant; False if there is none."""
    found = False
    for side, (start, width) in zip(sides, starts, strict=True):
        gap = start.minus(bounded).value
        if gap is not None and width is not None:
            side.highs.append(last.shifted(gap + width))
            found = True
        gap = start.plus(bounded).value
        if gap is not None:
            side.lows.append(Sum(gap).minus(last))
            found = True
    return found


def limit_of(condition: e.PrimExpr, context: Context) -> tuple[Sum, Sum] | None:
    """A condition as (X, last): X <= last, where X holds the terms with loop variables."""
    match condition:
        case e.LT(x, y):
            left, right = of(x, context), of(y, context).shifted(-1)
        case e.LE(x, y):
            left, right = of(x, context), of(y, context)
        case e.GT(x, y):
            left, right = of(y, context), of(x, context).shifted(-1)
        case e.GE(x, y):
            left, right = of(y, context), of(x, context)
        case _:
            return None
    gap = left.minus(right)
    loops = {t: c for t, c in gap.terms.items() if mentions_any(t, context.bounds)}
    rest = {t: -c for t, c in gap.terms.items() if t not in loops}
    return Sum(0, loops), Sum(-gap.const, rest)


def mentions_any(atom: Any, variables: Container[e.Var]) -> bool:
    """Whether one of the variables stands in an atom of a sum."""
    if isinstance(atom, e.Var):
        return atom in variables
    return any(v in variables for v in atom.variables())


def inside(part: Box, whole: Box, known: Mapping[e.Var, Bounds]) -> bool:
    """True if every element of `part` that the buffer has is surely in `whole`."""
    shape = part.buffer.shape
    for axis, (small, large) in enumerate(zip(part.sides, whole.sides, strict=True)):
        lows = [*small.lows, ZERO]
        highs = [*small.highs, of(shape[axis]).shifted(-1)]
        if not all(any(at_most(end, y, known) for y in lows) for end in large.lows):
            return False
        if not all(any(at_most(y, end, known) for y in highs) for end in large.highs):
            return False
    return True


def is_full(box: Box, known: Mapping[e.Var, Bounds]) -> bool:
    """True if all that the indices reach in the buffer is touched: no holes, nothing cut off by a
    predicate.
    """
    reached = [Side([side.low], [side.high]) for side in box.sides]
    return box.exact and inside(Box(box.buffer, reached, True), box, known)


def hull(boxes: list[Box], known: Mapping[e.Var, Bounds]) -> list[Span]:
    """For each dimension the smallest and largest index of several boxes (ends of the indices
    alone).
    """
    sides = []
    for axis in range(len(boxes[0].sides)):
        low, high = boxes[0].sides[axis].low, boxes[0].sides[axis].high
        for box in boxes[1:]:
            low = smaller(low, box.sides[axis].low, known)
            high = larger(high, box.sides[axis].high, known)
        sides.append((low, high))
    return sides
