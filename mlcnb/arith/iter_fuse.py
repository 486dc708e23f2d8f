"""Splits fused into one: each one's step is the product of the extents below it.

i * 8 + j            i in 0..4, j in 0..8                  one split of extent 32
i * 7 + j            i in 0..3, j in 0..8, overlapping     one of extent 22, where allowed
i * 9 + j * 2 + k    where j * 2 + k < 9                   (j * 2 + k) is one of extent 9 first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.iter_bounds import Bounded
from mlcnb.arith.iter_sum import IterMark, IterSplit, IterSum, NoIterMap, whole
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr

#: what tells fused sums apart: the splits and their steps
Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Fused:
    """A sum of splits as a mark that counts from 0: sum == mark + offset, in units of the sum."""

    flat: tuple[IterSplit, ...]
    mark: IterMark
    offset: PrimExpr


@dataclass
class _Chain:
    """Splits in order, lowest first: as they are, and with bounded sums in their place."""

    flat: list[IterSplit]
    groups: list[IterSplit]
    extra: PrimExpr
    #: the numbers below it are all taken
    reach: PrimExpr


class Fuser:
    """Sums of splits as one split, with the bounds that a predicate sets."""

    def __init__(self, analyzer: Analyzer, overlaps: bool) -> None:
        self.analyzer, self.simple = analyzer, analyzer.simplify
        self.overlaps = overlaps
        self.known: dict[Key, _Fused] = {}
        self.bounded: dict[Key, _Fused] = {}

    def same(self, a: Any, b: Any) -> bool:
        """True if two expressions are surely equal."""
        return self.analyzer.can_prove_equal(a, b)

    def divides(self, x: PrimExpr, by: PrimExpr) -> bool:
        """True if `by` surely divides `x`."""
        return self.same(p.floormod(x, by), 0) if not p.is_const(by, 0) else False

    def fuse(self, x: IterSum) -> IterSum:
        """The same sum with one split.

        Raises:
            NoIterMap: a step is not what the splits below it reach.
        """
        if not x.splits:
            return x
        x = IterSum(tuple(self.joined(x.splits)), x.base)
        chain = self.chain(list(x.splits))
        unit = chain.flat[0].scale
        key = self.key(chain.flat, unit)
        fused = self.known.get(key)
        if fused is None:
            if len(chain.groups) == 1:
                return x
            fused = self.known[key] = self.new(chain, unit)
        base = self.simple(x.base + fused.offset * unit)
        return IterSum((whole(fused.mark, unit),), base)

    def new(self, chain: _Chain, unit: PrimExpr) -> _Fused:
        """A chain as a mark of its own."""
        falling = reversed(chain.groups)
        inner = tuple(s.scaled(self.simple(p.floordiv(s.scale, unit))) for s in falling)
        mark = IterMark(
            IterSum(inner, p.const(0, unit.dtype)), self.simple(p.floordiv(chain.reach, unit))
        )
        return _Fused(tuple(chain.flat), mark, self.simple(p.floordiv(chain.extra, unit)))

    def joined(self, splits: Sequence[IterSplit]) -> list[IterSplit]:
        """Neighbouring parts of one mark as one part: x // 4 * 4 + x % 4 is x."""
        found = list(splits)
        at = 0
        while at < len(found):
            low = found[at]
            high = next((s for s in found if self.follows(s, low)), None)
            if high is None:
                at += 1
                continue
            extent = self.simple(low.extent * high.extent)
            found[at] = IterSplit(low.mark, low.lower, extent, low.scale)
            found.remove(high)
            at = 0
        return found

    def follows(self, high: IterSplit, low: IterSplit) -> bool:
        """True if `high` is the next part of the mark of `low`, and its step the next step."""
        return (
            high is not low
            and high.mark is low.mark
            and self.same(high.lower, low.lower * low.extent)
            and self.same(high.scale, low.scale * low.extent)
            and not any(self.is_part(part, low) for f in self.bounded.values() for part in f.flat)
            and not any(self.is_part(part, high) for f in self.bounded.values() for part in f.flat)
        )

    def chain(self, waiting: list[IterSplit]) -> _Chain:
        """The splits in order: each one's step is what those below it reach."""
        unit = self.lowest(waiting).scale
        chain = _Chain([], [], p.const(0, unit.dtype), unit)
        while waiting:
            self.take(chain, waiting, self.next(chain, waiting, unit))
        return chain

    def lowest(self, waiting: Sequence[IterSplit]) -> IterSplit:
        """What a fused sum starts with: the smallest step, of extent 1 if there is one."""
        numbers = [split for split in waiting if isinstance(split.scale, e.IntImm)]
        return self.smallest(numbers or waiting)

    def smallest(self, splits: Sequence[IterSplit]) -> IterSplit:
        """The smallest step; of equal ones what stands last, as the innermost loop does."""
        return min(reversed(splits), key=self.size)

    def size(self, split: IterSplit) -> tuple[int, int, bool]:
        """What splits are ordered by: the step, then whether there is more than one value."""
        return *step_size(self.analyzer, split.scale), not p.is_const(split.extent, 1)

    def next(self, chain: _Chain, waiting: list[IterSplit], unit: PrimExpr) -> IterSplit:
        """The split whose step is what is reached, or may overlap with it."""
        if not chain.flat:
            return self.lowest(waiting)
        found = [split for split in waiting if self.same(split.scale, chain.reach)]
        if found:
            return self.smallest(found)
        lowest = self.lowest(waiting)
        if self.overlaps and p.is_const(unit, 1) and self.is_within(lowest.scale, chain.reach):
            return lowest
        raise NoIterMap(
            f"a term has the factor {lowest.scale!r}; {chain.reach!r} would fuse it with the "
            "terms below"
        )

    def is_within(self, scale: PrimExpr, reach: PrimExpr) -> bool:
        """True if a step is at least one and no more than what is reached."""
        prove = self.analyzer.can_prove
        return prove(p.less(0, scale)) and prove(p.less_equal(scale, reach))

    def take(self, chain: _Chain, waiting: list[IterSplit], lowest: IterSplit) -> None:
        """Move a split, or the bounded sum that starts with it, to the chain."""
        scale = lowest.scale
        fused = self.bounded_from(lowest)
        group = lowest if fused is None else whole(fused.mark, scale)
        steps = [(lowest, scale)]
        if fused is not None:
            steps = [(part, self.simple(part.scale * scale)) for part in fused.flat]
            chain.extra = self.simple(chain.extra + fused.offset * scale)
        for part, step in steps:
            here = [s for s in waiting if self.is_part(s, part) and self.same(s.scale, step)]
            if not here:
                raise NoIterMap("the predicate bounds a fused loop that the indices take apart")
            waiting.remove(here[0])
            chain.flat.append(here[0])
        if chain.groups and not self.same(scale, chain.reach):  # it overlaps
            chain.reach = self.simple(chain.reach + scale * (group.extent - 1))
        else:
            chain.reach = self.simple(scale * group.extent)
        chain.groups.append(group)

    def bounded_from(self, lowest: IterSplit) -> _Fused | None:
        """The longest bounded sum that starts with this split."""
        found = [fused for fused in self.bounded.values() if self.is_part(fused.flat[0], lowest)]
        return max(found, key=lambda fused: len(fused.flat), default=None)

    def is_part(self, a: IterSplit, b: IterSplit) -> bool:
        """True for the same part of the same mark, whatever it is multiplied by."""
        return a.mark is b.mark and self.same(a.lower, b.lower) and self.same(a.extent, b.extent)

    def key(self, flat: Sequence[IterSplit], unit: PrimExpr) -> Key:
        """What tells a fused sum apart."""
        numbers = self.analyzer.normalizer.key
        return tuple(
            (
                id(s.mark),
                numbers(s.lower),
                numbers(s.extent),
                numbers(self.simple(p.floordiv(s.scale, unit))),
            )
            for s in flat
        )

    # bounds

    def bound(self, x: IterSum, bounds: Bounded) -> None:
        """Set bounds to a sum: from now on it is a mark of its own."""
        chain = self.chain(self.joined(x.splits))
        unit = chain.flat[0].scale
        key = self.key(chain.flat, unit)
        fused = self.known.get(key) or self.new(chain, unit)
        first, last = fused.offset, self.simple(fused.offset + fused.mark.extent)
        low, high = self.tightened(x, bounds, unit, first, last)
        if self.same(low, first) and self.same(high, last):
            return
        inner = fused.mark.source
        base = self.simple(inner.base + first - low)
        mark = IterMark(IterSum(inner.splits, base), self.simple(high - low))
        flat = tuple(s.scaled(self.simple(p.floordiv(s.scale, unit))) for s in chain.flat)
        self.forget_sums_of(key)
        self.known[key] = self.bounded[key] = _Fused(flat, mark, low)

    def forget_sums_of(self, key: Key) -> None:
        """Sums that were fused before a part of them was bounded are to be fused anew."""
        parts = _parts(key)
        for other in [k for k in self.known if parts < _parts(k)]:
            if other in self.bounded:
                raise NoIterMap("the predicate bounds a part of a sum after the sum")
            del self.known[other]

    def tightened(
        self, x: IterSum, bounds: Bounded, unit: PrimExpr, low: PrimExpr, high: PrimExpr
    ) -> tuple[PrimExpr, PrimExpr]:
        """Where the sum starts and ends, in units."""
        if bounds.low is not None:
            low = p.maximum(low, p.ceildiv(self.simple(bounds.low - x.base), unit))
        if bounds.high is not None:
            high = p.minimum(high, p.ceildiv(self.simple(bounds.high - x.base), unit))
        return self.simple(low), self.simple(high)

    def check_bounds(self) -> None:
        """Bounded sums stand in one another, or have nothing in common.

        Raises:
            NoIterMap: two of them share some of their splits.
        """
        parts = [_parts(key) for key in self.bounded]
        for n, a in enumerate(parts):
            for b in parts[:n]:
                if a & b and not (a <= b or b <= a):
                    raise NoIterMap("the predicate bounds sums that overlap")


def step_size(analyzer: Analyzer, scale: PrimExpr) -> tuple[int, int]:
    """What steps are ordered by: how many symbols are multiplied, then by what number."""
    form = analyzer.normal_form(scale)
    degree = max((len(atom.factors) for atom in form.terms), default=0)
    return degree, abs(form.const or min(form.terms.values(), default=0))


def _parts(key: Key) -> frozenset[Any]:
    """The splits of a key, whatever they are multiplied by."""
    return frozenset(entry[:3] for entry in key)
