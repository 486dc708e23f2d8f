"""Moving a block under another loop: which of its instances belong there.

required part of what it writes (compute_at), or available part of what it reads
(reverse_compute_at)
    B[i_0 * 8 : i_0 * 8 + 10]
its index there                          v + 2
so its axis takes                        i_0 * 8 - 2 : i_0 * 8 + 8, cut to the axis's domain
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlcnb.arith.extremes import Span, extremes
from mlcnb.arith.reading import Context, divided, of
from mlcnb.arith.sum import Bounds, Quotient, Remainder, Sum
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import BufferRegion
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule.edit.caching import index_dtype
from mlcnb.tir.schedule.edit.elementwise import axis_bounds
from mlcnb.tir.schedule.edit.nests import Nest
from mlcnb.tir.schedule.legality.boxes import Side, conjuncts, cut_side, limit_of
from mlcnb.tir.schedule.legality.promises import why_neither
from mlcnb.tir.schedule.legality.regions import bindings, known_bounds
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.schedule.record.tree import Edit, Tree

#: what an axis must take
Sides = dict[e.Var, Side]


def solve(
    block: s.Block,
    region: BufferRegion,
    sides: Sequence[Side],
    known: Mapping[e.Var, Bounds],
    last: bool = False,
) -> Sides:
    """For each axis that a region speaks of, the values that make it meet the box `sides`.

    May take in too many values, never too few. last: the values that make it end in the box.
    """
    known = {**known, **axis_bounds(block)}
    context = Context(known)
    found: Sides = {}
    rests: list[tuple[Remainder, Side]] = []
    for index, side in zip(region.region, sides, strict=True):
        width = of(index.extent, context).shifted(-1).value
        if width is not None:
            _solve(found, rests, of(index.min, context), width, side, known, last)
    for rest, side in rests:
        _narrow_rest(found, rest, side)
    return found


def _solve(
    found: Sides,
    rests: list[tuple[Remainder, Side]],
    index: Sum,
    width: int,
    side: Side,
    known: Mapping[e.Var, Bounds],
    last: bool,
) -> None:
    """Narrow the axes that an index is made of, those of larger steps first.

    Where one of them takes a single value, what is left of the index says something of the others.
    """
    top = _top(index, known)
    if top is None:
        return
    atom, step, low, high = top
    part = _over(side, step, high + width if last else low, high + width, known)
    if isinstance(atom, e.Var):
        _narrow(found, atom, part)
    elif isinstance(atom, Remainder):
        rests.append((atom, part))
    elif isinstance(atom, Quotient) and isinstance(atom.inner.only_atom, e.Var):
        whole = Side(
            [x.scaled(atom.by) for x in part.lows],
            [x.scaled(atom.by).shifted(atom.by - 1) for x in part.highs],
        )
        _narrow(found, atom.inner.only_atom, whole)
    if isinstance(atom, e.Var) and not last and part.low.is_same(part.high):
        taken, quotient = part.low.scaled(-step), part.low.only_atom
        if isinstance(quotient, Quotient) and quotient.by == step:  # X - X // step * step
            rest = Sum(0, {Remainder(quotient.inner, step): 1})
            taken = rest.minus(quotient.inner)
        left = Side([x.plus(taken) for x in side.lows], [x.plus(taken) for x in side.highs])
        _solve(found, rests, index.without(atom), width, left, known, last)


def _top(index: Sum, known: Mapping[e.Var, Bounds]) -> tuple[object, int, int, int] | None:
    """The term of the largest step, with the ends of the rest; None where the rest has none."""
    if not index.terms:
        return None
    atom, step = max(index.terms.items(), key=lambda term: abs(term[1]))
    rest = index.without(atom)
    low, high = rest.bounds(known)
    if step <= 0 or low is None or high is None:
        return None
    return atom, step, low, high


def _over(side: Side, step: int, low: int, high: int, known: Mapping[e.Var, Bounds]) -> Side:
    """X with low <= rest <= high and X * step + rest within `side`."""
    lows = [divided(x.shifted(step - 1 - high), step, known) for x in side.lows]
    highs = [divided(x.shifted(-low), step, known) for x in side.highs]
    return Side(lows, highs)


def _narrow(found: Sides, axis: e.Var, side: Side) -> None:
    if axis in found:
        side = Side([*found[axis].lows, *side.lows], [*found[axis].highs, *side.highs])
    found[axis] = side


def _narrow_rest(found: Sides, rest: Remainder, side: Side) -> None:
    """v % c within `side` says something of v only where v // c is one value."""
    axis = rest.inner.only_atom
    if axis not in found:
        return
    low, high = found[axis].low, found[axis].high
    if high.minus(low).value == rest.by - 1:
        found[axis] = Side([low.plus(x) for x in side.lows], [low.plus(x) for x in side.highs])


def full(axis: s.IterVar) -> Side:
    """The whole domain of an axis."""
    low = of(axis.dom.min)
    return Side([low], [low.plus(of(axis.dom.extent)).shifted(-1)])


def axis_spans(block: s.Block) -> dict[e.Var, Span]:
    """First and last value of each axis of a block."""
    sides = {axis.var: full(axis) for axis in block.iter_vars}
    return {var: (side.low, side.high) for var, side in sides.items()}


def limits(tree: Tree, block: s.Block) -> Sides | None:
    """What the predicate of a block says of its axes; None where it says more than ends of axes."""
    found, rest = _limits(tree, block)
    return None if rest else found


def _limits(tree: Tree, block: s.Block) -> tuple[Sides, list[e.PrimExpr]]:
    """What the predicate of a block says of single axes, and its other conditions."""
    context = bindings(tree, block)
    loops = {x.loop_var for x in tree.loops(block)}
    found: Sides = {}
    rest = []
    for condition in conjuncts(tree.realize(block).predicate):
        limit = limit_of(condition, context)
        axis = None
        if limit is not None and not limit[1].uses(loops):
            axis = _bounded_axis(context, block, limit)
        if axis is None:
            rest.append(condition)
        else:
            _narrow(found, *axis)
    return found, rest


def _bounded_axis(
    context: Context, block: s.Block, limit: tuple[Sum, Sum]
) -> tuple[e.Var, Side] | None:
    bounded, last = limit
    for axis in block.iter_vars:
        value = context.values[axis.var]
        gap = value.minus(bounded).value
        if gap is not None:
            return axis.var, Side(full(axis).lows, [last.shifted(gap)])
        gap = value.plus(bounded).value
        if gap is not None:
            return axis.var, Side([Sum(gap).minus(last)], full(axis).highs)
    return None


def refuse_neither(state: State, primitive: str, block: s.Block) -> None:
    """Refuse a block whose instances may not be run where something else stands."""
    message = f"{primitive}: {name_of(block)} is neither complete nor a reduction block"
    state.refuse_for(why_neither(state.tree, block), message, block)


def nest_for(state: State, block: s.Block, loop: s.For, wanted: Sides, keep_units: bool) -> Nest:
    """Loops under `loop` over the wanted instances of a block, all values of other axes.

    Raises:
        ScheduleError: the predicate of the block cannot be said of its axes.
    """
    tree = state.tree
    known = known_bounds(tree, loop)
    said, rest = _limits(tree, block)
    around = [*tree.loops(loop), loop]
    nest = Nest(known, index_dtype(tree, block), keep_units, around, only_values(known))
    for axis in block.iter_vars:
        side = wanted.get(axis.var, full(axis))
        more = said.get(axis.var)
        if more is not None:
            side = Side([*side.lows, *more.lows], [*side.highs, *more.highs])
        nest.axis(side, axis.dom)
    for condition in rest:
        nest.conditions.append(_of_values(state, block, condition, nest))
    return nest


def only_values(known: Mapping[e.Var, Bounds]) -> Context:
    """The variables that take one value (of loops of one iteration), as that value."""
    single = {v: Sum(low) for v, (low, high) in known.items() if low is not None and low == high}
    return Context(known, single)


def _of_values(state: State, block: s.Block, condition: e.PrimExpr, nest: Nest) -> e.PrimExpr:
    """A condition on loops that are axes, said of the values that the axes have in a nest."""
    context = bindings(state.tree, block)
    values = {
        context.values[axis.var].only_atom: value.expr(nest.dtype)
        for axis, value in zip(block.iter_vars, nest.values, strict=True)
    }
    loops = {x.loop_var for x in state.tree.loops(block)}
    if any(n in loops and n not in values for n in walk(condition)):
        raise state.refusal(
            f"{name_of(block)} has a predicate that cannot be said of its axes: {condition}", block
        )
    return substitute(condition, values)


def nest_sides(
    nest: Nest, block: s.Block, indices: Iterable[tuple[e.PrimExpr, e.PrimExpr]]
) -> list[Side] | None:
    """The box of a region of the block over the loops of the nest, cut by its conditions.

    None where an index cannot be bounded.
    """
    values = {axis.var: v for axis, v in zip(block.iter_vars, nest.values, strict=True)}
    context = Context(nest.known, values)
    inner = {var: (Sum(0), of(extent).shifted(-1)) for var, extent in nest.loops}
    bounded = [limit_of(c, context) for c in nest.conditions]
    sides = []
    for first, extent in indices:
        low = of(first, context)
        high = low.plus(of(extent, context)).shifted(-1)
        ends = extremes(low, inner, nest.known), extremes(high, inner, nest.known)
        if ends[0] is None or ends[1] is None:
            return None
        side = Side([ends[0][0]], [ends[1][1]])
        for limit in bounded:
            if limit is not None:
                cut_side(side, low, high, *limit)
        sides.append(side)
    return sides


def reads_within(block: s.Block, region: BufferRegion) -> bool:
    """True if every instance of the block reads inside the buffer."""
    known = axis_spans(block)
    for side, extent in zip(region.region, region.buffer.shape, strict=True):
        ends = extremes(of(side.min), known, {})
        if ends is None:
            return False
        low = ends[0].bounds({})[0]
        gap = ends[1].plus(of(side.extent)).minus(of(extent)).bounds({})[1]
        if low is None or low < 0 or gap is None or gap > 0:
            return False
    return True


def body_items(loop: s.For) -> list[s.Stmt]:
    """The statements of a loop's body, one after the other."""
    return list(loop.body.seq) if isinstance(loop.body, s.SeqStmt) else [loop.body]


def put_in(
    state: State, edit: Edit, name: str, loop: s.For, new: s.Stmt, first: int, last: int, index: int
) -> None:
    """Put a statement into a loop's body: -1 at the last place allowed, -2 at the first, or at
    `index`.

    first, last: the places allowed, counted in statements that stand before.
    """
    items = body_items(loop)
    place = {-1: last, -2: first}.get(index, index)
    if not first <= place <= last:
        raise state.refusal(
            f"{name}: place {index} in {name_of(loop)} is not between the producers and the "
            f"consumers, at {first} to {last}",
            loop,
        )
    if place < len(items):
        edit.before(items[place], new)
    else:
        edit.after(items[-1], new)
