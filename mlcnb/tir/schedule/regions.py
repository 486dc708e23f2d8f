"""What part of a buffer a block touches, over the loops below some place: boxes with symbolic
corners.

    for i_1 in range(4):                                    over i_1:
        with T.block("B"): v = i_0 * 4 + i_1; B[v + 1]       B[i_0 * 4 + 1 : i_0 * 4 + 5]

A side is an intersection: all of `lows` <= index <= all of `highs`. `exact` says that every
element of
the box is touched; without it the box may be too large, never too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import affine as a
from mlcnb.tir.schedule.affine import Affine, Bounds
from mlcnb.tir.schedule.digits import contiguous
from mlcnb.tir.schedule.reading import Context, divided, larger, of, smaller
from mlcnb.tir.schedule.tree import Tree

#: a variable's first and last value, themselves sums of outer variables
Span = tuple[Affine, Affine]


@dataclass
class Side:
    """One dimension of a box: its ends, and after them what a predicate cuts it to."""

    lows: list[Affine]
    highs: list[Affine]

    @property
    def low(self) -> Affine:
        """The lower end that the index itself has."""
        return self.lows[0]

    @property
    def high(self) -> Affine:
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
    shapes = (v for b in func.buffers for n in b.shape for v in a.variables_of(n))
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


def extremes(x: Affine, inner: Mapping[e.Var, Span], known: Mapping[e.Var, Bounds]) -> Span | None:
    """Smallest and largest value of `x` while the `inner` variables take all their values.

    None where that cannot be told.
    """
    low = high = Affine(x.const)
    for atom, coefficient in x.terms.items():
        ends = _atom_extremes(atom, inner, known)
        if ends is None:
            return None
        first, last = ends if coefficient > 0 else ends[::-1]
        low = low.plus(first, coefficient)
        high = high.plus(last, coefficient)
    return low, high


def _atom_extremes(
    atom: Any, inner: Mapping[e.Var, Span], known: Mapping[e.Var, Bounds]
) -> Span | None:
    if isinstance(atom, e.Var):
        return inner[atom] if atom in inner else _fixed(atom)
    if not any(v in inner for v in atom.variables()):
        return _fixed(atom)
    if isinstance(atom, a.Extreme):
        pairs = extremes(atom.a, inner, known), extremes(atom.b, inner, known)
        pick = smaller if atom.is_min else larger
        if pairs[0] is None or pairs[1] is None:
            return None
        return pick(pairs[0][0], pairs[1][0], known), pick(pairs[0][1], pairs[1][1], known)
    if isinstance(atom, a.Quotient):
        ends = extremes(atom.inner, inner, known)
        return ends and (divided(ends[0], atom.by, known), divided(ends[1], atom.by, known))
    if isinstance(atom, a.Remainder):
        return _remainder_extremes(atom, extremes(atom.inner, inner, known), known)
    low, high = atom.bounds({**known, **_numbers(inner)})
    return None if low is None or high is None else (Affine(low), Affine(high))


def _fixed(atom: Any) -> Span:
    same = Affine(0, {atom: 1})
    return same, same


def _remainder_extremes(
    atom: a.Remainder, ends: Span | None, known: Mapping[e.Var, Bounds]
) -> Span:
    if ends is not None:
        period = divided(ends[0], atom.by, known)
        if period.same(divided(ends[1], atom.by, known)):
            start = period.times(atom.by)
            return ends[0].minus(start), ends[1].minus(start)
    return Affine(0), Affine(atom.by - 1)


def _numbers(inner: Mapping[e.Var, Span]) -> dict[e.Var, Bounds]:
    return {v: (low.value, high.value) for v, (low, high) in inner.items()}


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
            sides.append(Side([a.ZERO], [last]))
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
    starts: list[tuple[Affine, int | None]],
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
    sides: list[Side], starts: list[tuple[Affine, int | None]], bounded: Affine, last: Affine
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
            side.lows.append(Affine(gap).minus(last))
            found = True
    return found


def limit_of(condition: e.PrimExpr, context: Context) -> tuple[Affine, Affine] | None:
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
    loops = {t: c for t, c in gap.terms.items() if _mentions_any(t, context.bounds)}
    rest = {t: -c for t, c in gap.terms.items() if t not in loops}
    return Affine(0, loops), Affine(-gap.const, rest)


def _mentions_any(atom: Any, variables: Mapping[e.Var, Bounds]) -> bool:
    if isinstance(atom, e.Var):
        return atom in variables
    return any(v in variables for v in atom.variables())


def inside(part: Box, whole: Box, known: Mapping[e.Var, Bounds]) -> bool:
    """True if every element of `part` that the buffer has is surely in `whole`."""
    shape = part.buffer.shape
    for axis, (small, large) in enumerate(zip(part.sides, whole.sides, strict=True)):
        lows = [*small.lows, a.ZERO]
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


def at_most(x: Affine, y: Affine, known: Mapping[e.Var, Bounds]) -> bool:
    """True if x <= y for sure."""
    high = largest(x.minus(y), known)
    return high is not None and high <= 0


def largest(x: Affine, known: Mapping[e.Var, Bounds]) -> int | None:
    """An upper bound of `x`; sums of quotients of one divisor, and minima, are looked at
    together.
    """
    plain = x.bounds(known)[1]
    for atom, coefficient in x.terms.items():
        if isinstance(atom, a.Extreme) and abs(coefficient) == 1:
            found = _largest_with_extreme(x, atom, coefficient, known)
        elif isinstance(atom, a.Quotient) and coefficient > 0:
            found = _largest_with_quotients(x, atom, coefficient, known)
        else:
            continue
        if found is not None and (plain is None or found < plain):
            plain = found
    return _largest_without_quotient(x, known) if plain is None else plain


def _largest_without_quotient(x: Affine, known: Mapping[e.Var, Bounds]) -> int | None:
    """c * (X // c) lies in X - c + 1 .. X: for symbolic X, where constants bound nothing."""
    for atom, coefficient in x.terms.items():
        if isinstance(atom, a.Quotient) and coefficient % atom.by == 0:
            rest = Affine(x.const, {t: c for t, c in x.terms.items() if t is not atom})
            times = coefficient // atom.by
            slack = 0 if times > 0 else atom.by - 1
            return largest(rest.plus(atom.inner.shifted(-slack), times), known)
    return None


def _largest_with_extreme(
    x: Affine, atom: a.Extreme, coefficient: int, known: Mapping[e.Var, Bounds]
) -> int | None:
    rest = Affine(x.const, {t: c for t, c in x.terms.items() if t is not atom})
    ends = [largest(rest.plus(part, coefficient), known) for part in (atom.a, atom.b)]
    if atom.is_min == (coefficient > 0):
        return min((end for end in ends if end is not None), default=None)
    return None if None in ends else max(ends)  # type: ignore[type-var]


def _largest_with_quotients(
    x: Affine, atom: a.Quotient, coefficient: int, known: Mapping[e.Var, Bounds]
) -> int | None:
    """k * (X // c) - k * (Y // c) is at most k * ceil((X - Y) / c)."""
    for other, c in x.terms.items():
        if isinstance(other, a.Quotient) and c == -coefficient and other.by == atom.by:
            gap = atom.inner.minus(other.inner).bounds(known)[1]
            if gap is not None:
                rest = {t: k for t, k in x.terms.items() if t is not atom and t is not other}
                remaining = largest(Affine(x.const, rest), known)
                if remaining is not None:
                    return remaining + coefficient * -(-gap // atom.by)
    return None


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
