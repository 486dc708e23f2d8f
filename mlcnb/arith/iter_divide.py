"""Bindings divided into an outer and an inner part, as tensorization needs them.

[i * 8 + j], j inside                       (i, j): i * 8 + j == outer * 8 + inner
[(i * 8 + j) // 4], j inside                (i, j // 4)
… where i * 8 + j // 4 < 7, i outside       and the predicate, divided likewise
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.iter_map import detect_iter_map
from mlcnb.arith.iter_normal import normalize_iter_map_to_expr
from mlcnb.arith.iter_sum import IterMapLevel, IterMark, IterSplit, IterSum, NoIterMap, whole
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[tuple[IterMark, IterMark]]:
    """Each binding as outer * extent of inner + inner, where `sub_iters` run in the inner part.

    Arguments as for `detect_iter_map`.

    Returns:
        (outer, inner) for each binding, with their extents; last a pair whose extents are the
        predicate, divided likewise. [] where a binding or the predicate mixes the two.
    """
    analyzer = analyzer or Analyzer()
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, analyzer, simplify_trivial_iterators
    )
    if not found:
        return []
    divider = _Divider(found.indices, set(sub_iters), analyzer)
    try:
        parts = [divider.sum(made, None).marks() for made in found.indices]
    except NoIterMap:
        return []
    zero = IterSum((), 0)
    conditions = (IterMark(zero, p.all_of(*each)) for each in (divider.outside, divider.inside))
    return [*parts, tuple(conditions)]  # type: ignore[list-item]


@dataclass(frozen=True)
class _Division:
    """outer * extent of inner + inner."""

    outer: IterSum
    outer_extent: PrimExpr
    inner: IterSum
    inner_extent: PrimExpr

    @property
    def is_outer(self) -> bool:
        """True if nothing runs inside."""
        return p.is_const(self.inner_extent, 1) and not self.inner.splits

    @property
    def is_inner(self) -> bool:
        """True if nothing runs outside."""
        return p.is_const(self.outer_extent, 1) and not self.outer.splits

    def marks(self) -> tuple[IterMark, IterMark]:
        """Both parts with their extents."""
        return IterMark(self.outer, self.outer_extent), IterMark(self.inner, self.inner_extent)


class _Divider:
    """Divides sums, marks and splits."""

    def __init__(self, sums: Sequence[IterSum], inner: set[Var], analyzer: Analyzer) -> None:
        self.inner = inner
        self.analyzer = analyzer
        self.outside: list[PrimExpr] = []
        self.inside: list[PrimExpr] = []
        self.parts: dict[IterMark, list[IterSplit]] = {}
        self.divided: dict[IterSplit, _Division] = {}
        for made in sums:
            self.collect(made)

    def collect(self, made: IterSum) -> None:
        """Which parts of each mark are used."""
        for split in made.splits:
            is_new = split.mark not in self.parts
            self.parts.setdefault(split.mark, []).append(split)
            if is_new and isinstance(split.mark.source, IterSum):
                self.collect(split.mark.source)

    def sum(self, made: IterSum, extent: PrimExpr | None) -> _Division:
        """A sum; where its extent is given and less than it could be, that is a condition.

        Raises:
            NoIterMap: it mixes outer and inner parts.
        """
        zero = p.const(0, made.base.dtype)
        if not made.splits:
            return self.of([], [], made.base, zero)
        if extent is None and len(made.splits) == 1:
            self.check_step(made.splits[0], p.const(1, zero.dtype))
            return self.shifted(self.split(made.splits[0]), made.base)
        outer: list[IterSplit] = []
        inner: list[IterSplit] = []
        reach: PrimExpr = p.const(1, zero.dtype)
        for split in reversed(made.splits):
            self.check_step(split, reach)
            reach = reach * split.extent
            part = self.split(split)
            if part.is_inner and not outer:
                inner.append(self.alone(part.inner, split))
            elif part.is_outer:
                outer.append(self.alone(part.outer, split))
            else:
                raise NoIterMap("an outer and an inner part are mixed")
        found = self.of(outer, inner, made.base, zero)
        total = self.analyzer.simplify(found.outer_extent * found.inner_extent)
        if extent is not None and not self.analyzer.can_prove_equal(total, extent):
            return self.bounded(made, found, extent)
        return found

    def check_step(self, split: IterSplit, reach: PrimExpr) -> None:
        """A step over what was reached leaves numbers out, a smaller one takes some twice."""
        if not self.analyzer.can_prove_equal(split.scale, reach):
            raise NoIterMap(f"a step of {split.scale!r} where {reach!r} is reached")

    def of(
        self, outer: list[IterSplit], inner: list[IterSplit], base: PrimExpr, zero: PrimExpr
    ) -> _Division:
        """Splits from the lowest up, each part counted from its own lowest."""
        above, above_extent = self.stacked(outer, zero)
        below, below_extent = self.stacked(inner, base)
        return _Division(above, above_extent, below, below_extent)

    def stacked(self, splits: list[IterSplit], base: PrimExpr) -> tuple[IterSum, PrimExpr]:
        extent: PrimExpr = p.const(1, base.dtype)
        args = []
        for split in splits:
            args.append(split.scaled(extent))
            extent = self.analyzer.simplify(extent * split.extent)
        return IterSum(tuple(reversed(args)), base), extent

    def shifted(self, part: _Division, base: PrimExpr) -> _Division:
        """A division plus what does not run: that goes inside."""
        inner = IterSum(part.inner.splits, self.analyzer.simplify(part.inner.base + base))
        return _Division(part.outer, part.outer_extent, inner, part.inner_extent)

    def alone(self, part: IterSum, split: IterSplit) -> IterSplit:
        """One part of a division as a split: itself, or all of a new mark."""
        if len(part.splits) == 1 and p.is_const(part.base, 0):
            return part.splits[0]
        return whole(IterMark(part, split.extent))

    def bounded(self, made: IterSum, found: _Division, extent: PrimExpr) -> _Division:
        """A sum that a predicate keeps below `extent`: all of it is outer, or all inner."""
        zero, one = (p.const(n, made.base.dtype) for n in (0, 1))
        is_inner = not found.outer.splits
        if found.outer.splits and found.inner.splits:
            raise NoIterMap("a bound holds for outer and inner loops together")
        value = IterSum((found.inner if is_inner else found.outer).splits, made.base)
        conditions = self.inside if is_inner else self.outside
        written = normalize_iter_map_to_expr(value)
        if not p.is_const(made.base, 0):
            conditions.append(p.less_equal(zero, written))
        conditions.append(p.less(written, extent))
        none = IterSum((), zero)
        return (
            _Division(none, one, value, extent) if is_inner else _Division(value, extent, none, one)
        )

    def split(self, split: IterSplit) -> _Division:
        """A part of a mark.

        Raises:
            NoIterMap: it takes from outer and inner loops what cannot be told apart.
        """
        if split not in self.divided:
            self.divide_mark(split.mark)
        return self.divided[split]

    def divide_mark(self, mark: IterMark) -> None:
        splits = self.parts[mark]
        if not isinstance(mark.source, IterSum):
            for split in splits:
                self.divided[split] = self.one_sided(split, mark.source in self.inner)
            return
        division = self.sum(mark.source, mark.extent)
        if len(splits) == 1 and self.is_whole(splits[0]):
            self.divided[splits[0]] = division
            return
        self.part_mark(splits, division)

    def is_whole(self, split: IterSplit) -> bool:
        return p.is_const(split.lower, 1) and self.analyzer.can_prove_equal(
            split.extent, split.mark.extent
        )

    def one_sided(self, split: IterSplit, is_inner: bool) -> _Division:
        zero = p.const(0, split.scale.dtype)
        alone = [split.scaled(p.const(1, zero.dtype))]
        return self.of([], alone, zero, zero) if is_inner else self.of(alone, [], zero, zero)

    def part_mark(self, splits: Sequence[IterSplit], division: _Division) -> None:
        """Parts of a mark: those below the extent of its inner part are inner."""
        outer_mark, inner_mark = division.marks()
        same = self.analyzer.can_prove_equal
        reach: PrimExpr = p.const(1, splits[0].extent.dtype)
        waiting = list(splits)
        boundary: PrimExpr | None = reach if division.is_outer else None
        while waiting:
            here = next((s for s in waiting if same(s.lower, reach)), None)
            if here is None:
                raise NoIterMap("a part is left out")
            waiting.remove(here)
            reach = self.analyzer.simplify(here.lower * here.extent)
            if boundary is None:
                part = IterSplit(inner_mark, here.lower, here.extent, here.scale)
                self.divided[here] = self.one_sided(part, True)
                boundary = reach if same(reach, division.inner_extent) else None
            else:
                lower = self.analyzer.simplify(p.floordiv(here.lower, boundary))
                part = IterSplit(outer_mark, lower, here.extent, here.scale)
                self.divided[here] = self.one_sided(part, False)
        if boundary is None:
            raise NoIterMap("no part ends where the inner loops do")
