"""Boxes: parts of a buffer with symbolic corners.

    B[i_0 * 4 + 1 : i_0 * 4 + 5]          lows i_0 * 4 + 1, highs i_0 * 4 + 4

A side is an intersection: all of `lows` <= index <= all of `highs`. `exact` says that every element
of the box is touched; without it the box may be too large, never too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlcnb.arith.digits import contiguous
from mlcnb.arith.extremes import Span, at_most, extremes
from mlcnb.arith.forms import in_order
from mlcnb.arith.reading import Context, larger, of, smaller
from mlcnb.arith.sum import ZERO, Bounds, Sum, mentions_any
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion


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


def box_over(
    region: BufferRegion, loops: Sequence[s.For], predicate: e.PrimExpr, context: Context
) -> Box:
    """The box that a region covers while loops, from the outside in, run under a predicate."""
    inner = spans(loops, context.bounds)
    once = {x.loop_var: inner[x.loop_var] for x in loops if p.as_int(x.extent) == 1}
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
    told = {v for start, _ in starts for v in start.variables()}
    exact = exact and not any(_may_rest(x, context.bounds) for x in loops if x.loop_var not in told)
    settled = [(_where_run_once(low, once, context), width) for low, width in starts]
    exact = _clip(sides, settled, predicate, context, inner, once) and exact
    return Box(region.buffer, sides, exact)


def _where_run_once(x: Sum, once: Mapping[e.Var, Span], context: Context) -> Sum:
    """A sum without the variables of loops that have one iteration."""
    found = extremes(x, once, context.bounds) if x.uses(once) else None
    return x if found is None else found[0]


def _may_rest(loop: s.For, known: Mapping[e.Var, Bounds]) -> bool:
    """True if a loop may have no iteration in some iteration of what is around it."""
    extent = of(loop.extent)
    least = extent.bounds(known)[0]
    return extent.uses(known) and (least is None or least < 1)


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
    once: Mapping[e.Var, Span],
) -> bool:
    """Cut the sides where the predicate bounds an index; False if it says something else too."""
    understood = True
    indexed = {v for start, _ in starts for v in start.variables()}
    for condition in conjuncts(predicate):
        limit = limit_of(condition, context)
        if limit is None:
            understood = False
            continue
        bounded, last = _where_run_once(limit[0], once, context), limit[1]
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
        end = None if width is None else start.shifted(width)
        found = cut_side(side, start, end, bounded, last) or found
    return found


def cut_side(side: Side, low: Sum, high: Sum | None, bounded: Sum, last: Sum) -> bool:
    """Cut a side from `low` to `high` where bounded <= last speaks of an end, up to a constant;
    False if it speaks of neither.
    """
    above = None if high is None else high.minus(bounded).value
    if above is not None:
        side.highs.append(last.shifted(above))
    below = low.plus(bounded).value
    if below is not None:
        side.lows.append(Sum(below).minus(last))
    return above is not None or below is not None


def limit_of(condition: e.PrimExpr, context: Context) -> tuple[Sum, Sum] | None:
    """A condition as (X, last): X <= last, where X holds the terms with loop variables."""
    sides = in_order(condition)
    if sides is None:
        return None
    x, y, strict = sides
    gap = of(x, context).minus(of(y, context)).shifted(strict)
    loops = {t: c for t, c in gap.terms.items() if mentions_any(t, context.bounds)}
    rest = {t: -c for t, c in gap.terms.items() if t not in loops}
    return Sum(0, loops), Sum(-gap.const, rest)


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


def is_uncut(box: Box, known: Mapping[e.Var, Bounds]) -> bool:
    """True if a predicate cuts nothing off that the indices reach in the buffer."""
    reached = [Side([side.low], [side.high]) for side in box.sides]
    return inside(Box(box.buffer, reached, True), box, known)


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
