"""Loop nests made from boxes: what compute_at, cache_read and their kin build.

box [i_0 * 8 : i_0 * 8 + 8] of a buffer of 30     ->     for ax0 in range(8):
                                                             with T.block(name):
                                                                 v0 = T.axis.spatial(30, i_0 *
                                                                 8 + ax0)
                                                                 T.where(i_0 * 8 + ax0 < 30)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlcnb.arith.atoms import Extreme
from mlcnb.arith.extremes import at_most, largest
from mlcnb.arith.reading import EMPTY, Context, larger, of, simplified, smaller
from mlcnb.arith.sum import ZERO, Bounds, Sum
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.schedule.legality.boxes import Side
from mlcnb.tir.schedule.legality.regions import bindings
from mlcnb.tir.schedule.record.tree import Tree

#: an element: its buffer and its indices
Place = tuple[Buffer, tuple[e.PrimExpr, ...]]


class Nest:
    """Loops ax0, ax1, … over the values that axes must take, with the conditions that keep them
    in range.

    single: variables that are written as the one value that they take.
    """

    def __init__(
        self,
        known: Mapping[e.Var, Bounds],
        dtype: str,
        keep_units: bool,
        around: Iterable[s.For] = (),
        single: Context = EMPTY,
    ) -> None:
        self.known = dict(known)
        self.around = [(x.loop_var, x.extent) for x in around if p.as_int(x.extent) is None]
        self.dtype = dtype
        self.keep_units = keep_units
        self.single = single
        self.loops: list[tuple[e.Var, e.PrimExpr]] = []
        self.values: list[Sum] = []
        self.written: list[e.PrimExpr] = []
        self.conditions: list[e.PrimExpr] = []

    def axis(self, side: Side, domain: e.Range, keep_unit: bool | None = None) -> Sum:
        """Add an axis that takes the values of `side` that lie in its domain; gives its value.

        keep_unit: whether a loop of one iteration is kept; as the nest says by default.
        """
        keep = self.keep_units if keep_unit is None else keep_unit
        dtype = domain.extent.dtype
        first, last = of(domain.min), of(domain.min).plus(of(domain.extent)).shifted(-1)
        side = Side(_parted(side.lows, False), _parted(side.highs, True))
        low, high = self._ends(side, first, last)
        count = high.minus(low).shifted(1)
        extent = self._extent(count, dtype)
        if extent is None:
            low, count = first, last.minus(first).shifted(1)
            extent = count.expr(dtype)
        exact = count.value is not None or of(extent).is_same(count)
        if of(domain.extent).is_same(of(extent)):
            low = self._settled(low)
        value, written = self._value(low, extent, dtype, keep)
        guarded = low if p.as_int(extent) == 1 else value
        self._guard(guarded, side, first, last, exact, dtype)
        self.values.append(value)
        self.written.append(written)
        return value

    def _ends(self, side: Side, first: Sum, last: Sum) -> tuple[Sum, Sum]:
        """The tightest ends among those that leave the extent a number."""
        low, high = side.low, side.high
        for other in (*side.lows[1:], first):
            if at_most(low, other, self.known) and _is_number(high.minus(other), low, high):
                low = other
        for other in (*side.highs[1:], last):
            if at_most(other, high, self.known) and _is_number(other.minus(low), low, high):
                high = other
        return low, high

    def _extent(self, count: Sum, dtype: DType) -> e.PrimExpr | None:
        """The number of iterations: exact where it is a number or symbolic, else an upper bound."""
        if count.value is not None:
            return p.const(max(count.value, 1), dtype)
        most = largest(count, self.known)
        if most is not None:
            return p.const(max(most, 1), dtype)
        return None

    def _settled(self, x: Sum) -> Sum:
        """The sum without variables that take one value."""
        return of(x.expr(self.dtype), self.single) if x.uses(self.single.values) else x

    def _value(
        self, low: Sum, extent: e.PrimExpr, dtype: DType, keep: bool
    ) -> tuple[Sum, e.PrimExpr]:
        """What an axis takes over `extent` values from `low` on, and how it is written."""
        if p.as_int(extent) == 1 and not keep:
            return low, low.expr(dtype)
        var = e.Var(f"ax{len(self.loops)}", dtype)
        self.loops.append((var, extent))
        size = p.as_int(extent)
        self.known[var] = (0, None if size is None else size - 1)
        value = low.plus(Sum(0, {var: 1}))
        if low.const and low.terms:
            return value, e.Add(low.expr(dtype), var)
        return value, value.expr(dtype)

    def _guard(
        self, value: Sum, side: Side, first: Sum, last: Sum, exact: bool, dtype: DType
    ) -> None:
        """Conditions for the ends that the loops may run past."""
        lows = [first, *(side.lows[1:] if exact else side.lows)]
        highs = [last, *(side.highs[1:] if exact else side.highs)]
        for end in _distinct(lows):
            if not self._holds(end, value):
                self.conditions.append(at_least(value, end, dtype))
        for end in _distinct(highs):
            if not self._holds(value, end):
                self.conditions.append(below(value, end.shifted(1), dtype))

    def _holds(self, small: Sum, big: Sum) -> bool:
        return at_most(self._spread(small, high=True), self._spread(big, high=False), self.known)

    def _spread(self, x: Sum, high: bool) -> Sum:
        """The largest (or smallest) value over loops with a symbolic extent."""
        for var, extent in (*self.around, *self.loops):
            if p.as_int(extent) is None and var in x.terms:
                step = x.terms[var]
                top = of(extent).shifted(-1) if (step > 0) == high else ZERO
                rest = x.without(var)
                x = rest.plus(top, step)
        return x

    def wrap(self, block: s.Block) -> s.Stmt:
        """The block in its loops, run where the conditions hold."""
        values = tuple(self.written)
        body: s.Stmt = s.BlockRealize(values, p.all_of(*self.conditions), block)
        for var, extent in reversed(self.loops):
            body = s.For(var, p.const(0, var.dtype), extent, s.ForKind.SERIAL, body)
        return body


def at_least(value: Sum, low: Sum, dtype: str) -> e.PrimExpr:
    """low <= value, the constant on the left."""
    return p.less_equal(
        low.shifted(-value.const).expr(dtype), value.shifted(-value.const).expr(dtype)
    )


def below(value: Sum, end: Sum, dtype: str) -> e.PrimExpr:
    """value < end, the constant on the right."""
    return p.less(value.shifted(-value.const).expr(dtype), end.shifted(-value.const).expr(dtype))


def _parted(ends: Sequence[Sum], is_min: bool) -> list[Sum]:
    """An end that is min(a, b) is two upper ends, one that is max(a, b) two lower ones."""
    found = []
    for end in ends:
        extreme = next((t for t, c in end.terms.items() if c == 1 and isinstance(t, Extreme)), None)
        if extreme is None or extreme.is_min != is_min:
            found.append(end)
            continue
        rest = end.without(extreme)
        found.extend(_parted([rest.plus(extreme.a), rest.plus(extreme.b)], is_min))
    return found


def _is_number(count: Sum, low: Sum, high: Sum) -> bool:
    return count.value is not None or high.minus(low).value is None


def _distinct(ends: Iterable[Sum]) -> list[Sum]:
    kept: list[Sum] = []
    for end in ends:
        if not any(end.is_same(other) for other in kept):
            kept.append(end)
    return kept


def joined(sides: Sequence[Side], known: Mapping[e.Var, Bounds]) -> Side:
    """One side that holds several, each cut to its own ends first where that is a number."""
    low, high = _cut(sides[0], known)
    for side in sides[1:]:
        first, last = _cut(side, known)
        low, high = smaller(low, first, known), larger(high, last, known)
    if len(sides) == 1:
        return sides[0]
    return Side([low], [high])


def _cut(side: Side, known: Mapping[e.Var, Bounds]) -> tuple[Sum, Sum]:
    low, high = side.low, side.high
    for other in side.lows[1:]:
        if at_most(low, other, known):
            low = other
    for other in side.highs[1:]:
        if at_most(other, high, known):
            high = other
    return low, high


def copy_nest(
    source: Buffer,
    target: Buffer,
    sides: Sequence[Side],
    known: Mapping[e.Var, Bounds],
    dtype: str,
    around: Iterable[s.For] = (),
) -> tuple[s.Stmt, s.Block]:
    """Loops that copy a box from one buffer to another of the same shape, and their block.

    around: the loops that they will stand in. The block is named after the cache: the one of the
    two with the longer name.
    """
    name = max(source.name, target.name, key=len)
    nest = Nest(known, dtype, keep_units=True, around=around)
    axes = axes_over(source.shape, dtype)
    for side, axis in zip(sides, axes, strict=True):
        nest.axis(side, axis.dom)
    indices = tuple(axis.var for axis in axes)
    block = copying(axes, (source, indices), (target, indices), name)
    return nest.wrap(block), block


def axes_over(shape: Iterable[Any], dtype: str | DType) -> tuple[s.IterVar, ...]:
    """Spatial axes v0, v1, … of a dtype, from 0 over the extents of a shape."""
    domains = [e.Range(p.const(0, dtype), p.fitted(dtype, n)) for n in shape]
    return tuple(s.IterVar(d, e.Var(f"v{n}", d.min.dtype)) for n, d in enumerate(domains))


def copying(axes: tuple[s.IterVar, ...], source: Place, target: Place, name: str) -> s.Block:
    """The block that copies one element to another, each told by its buffer and its indices."""
    store = s.BufferStore(target[0], BufferLoad(*source), target[1])
    return s.Block(axes, (point(*source),), (point(*target),), name, store)


def point(buffer: Buffer, indices: Sequence[e.PrimExpr]) -> BufferRegion:
    """The region that is one element."""
    return BufferRegion(buffer, tuple(e.Range(i, p.const(1, i.dtype)) for i in indices))


def looped(block: s.Block, name: str = "ax", predicate: e.PrimExpr | None = None) -> s.Stmt:
    """A block in loops of its own, one for each axis, over the whole domain.

    predicate: a condition on the block's axes; said of the loops that they are bound to.
    """
    loops = [e.Var(f"{name}{n}", axis.var.dtype) for n, axis in enumerate(block.iter_vars)]
    axes = {axis.var: of(var) for axis, var in zip(block.iter_vars, loops, strict=True)}
    holds = p.const(True) if predicate is None else simplified(predicate, Context(values=axes))
    body: s.Stmt = s.BlockRealize(tuple(loops), holds, block)
    for var, axis in reversed(list(zip(loops, block.iter_vars, strict=True))):
        body = s.For(var, axis.dom.min, axis.dom.extent, s.ForKind.SERIAL, body)
    return body


def innermost(nest: s.Stmt) -> s.Block:
    """The block in a nest of loops."""
    while isinstance(nest, s.For):
        nest = nest.body
    return nest.block  # type: ignore[attr-defined, no-any-return]


def own_nest(tree: Tree, block: s.Block) -> s.Stmt | None:
    """The outermost of the loops that are the axes of a block, one for one, and hold nothing else.

    None where the axes are bound to something else than loops, or to loops that do not run over the
    whole domain, or under a predicate.
    """
    context = bindings(tree, block)
    extents = {x.loop_var: of(x.extent) for x in tree.loops(block)}
    for axis in block.iter_vars:
        extent = extents.get(context.values[axis.var].only_atom)
        if extent is not None and not extent.is_same(of(axis.dom.extent)):
            return None
    wanted = {context.values[v.var].only_atom for v in block.iter_vars} - {None}
    single = [v for v in block.iter_vars if context.values[v.var].only_atom is None]
    top: s.Stmt = tree.realize(block)
    found = set()
    for loop in reversed(tree.loops(block)):
        if loop.body is not top or loop.loop_var not in wanted or p.as_int(loop.min) != 0:
            break
        found.add(loop.loop_var)
        top = loop
    units = all(p.as_int(v.dom.extent) == 1 for v in single)
    if found != wanted or not units or not p.is_const(tree.realize(block).predicate, 1):
        return None
    return top
