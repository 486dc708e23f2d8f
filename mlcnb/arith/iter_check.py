"""Does an iteration map use each part of each loop variable once?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.arith.iter_sum import IterMark, IterSplit, IterSum, NoIterMap
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var


class Check:
    """Each part of each loop variable is used at most once (surjective) or exactly once."""

    def __init__(self, rewriter: Any, bijective: bool) -> None:
        self.rewriter = rewriter
        self.bijective = bijective

    def sums(self, sums: Sequence[IterSum]) -> None:
        """Raise where the sums use a part twice, or leave one out that they must not."""
        parts: dict[IterMark, list[IterSplit]] = {}
        pending = [split for made in sums for split in made.splits]
        seen: set[IterMark] = set()
        for made in sums:
            self.compact(made)
        while pending:
            split = pending.pop()
            parts.setdefault(split.mark, []).append(split)
            if split.mark not in seen:
                seen.add(split.mark)
                if isinstance(split.mark.source, IterSum):
                    pending.extend(split.mark.source.splits)
        for mark, splits in parts.items():
            self.cover(mark, splits)
        self.bounded_are_used(seen)
        if self.bijective:
            self.all_used(seen)

    def compact(self, made: IterSum) -> None:
        """A bijective index takes every number, not only multiples."""
        for split in made.splits:
            if self.bijective and not p.is_const(split.scale, 1):
                raise NoIterMap(f"the index takes only multiples of {split.scale!r}")

    def cover(self, mark: IterMark, splits: list[IterSplit]) -> None:
        """The splits of one mark are neighbours, from the lowest to the whole extent."""
        reach: PrimExpr = p.const(1, mark.extent.dtype)
        waiting = list(splits)
        while waiting:
            here = [s for s in waiting if self.rewriter.same(s.lower, reach)]
            if not here:
                here = self.after_gap(mark, waiting, reach)
            if len(here) != 1:
                raise NoIterMap(f"a part of {_name(mark)} is used {len(here)} times")
            waiting.remove(here[0])
            reach = self.rewriter.simple(here[0].lower * here[0].extent)
        if not self.is_enough(mark, splits, reach):
            raise NoIterMap(f"{reach!r} of {mark.extent!r} values of {_name(mark)} are told apart")

    def is_enough(self, mark: IterMark, splits: Sequence[IterSplit], reach: PrimExpr) -> bool:
        """True if the mark has a value for each combination of its parts below `reach`."""
        origin = self.rewriter.padding.origin.get(mark)
        if origin is not None:
            return self.is_enough_padded(mark, splits, reach, *origin[1:])
        if self.rewriter.same(reach, mark.extent):
            return True
        return not self.bijective and self.rewriter.analyzer.can_prove(reach <= mark.extent)

    def is_enough_padded(
        self,
        mark: IterMark,
        splits: Sequence[IterSplit],
        reach: PrimExpr,
        count: PrimExpr,
        first: PrimExpr,
    ) -> bool:
        """`is_enough` for a mark that takes only the `count` values from `first` on."""
        same = self.rewriter.same
        if len(splits) == 1 and same(reach, mark.extent):  # no value is rounded to padding alone
            lower = splits[0].lower
            last = p.floordiv(first + count - 1, lower)
            return same(p.floordiv(first, lower), 0) and same(last, splits[0].extent - 1)
        return self.rewriter.analyzer.can_prove(reach <= count)

    def bounded_are_used(self, seen: set[IterMark]) -> None:
        """Where a sum is bounded, its loops are used by that sum."""
        used = {var for mark in seen for var in _variables(mark)}
        for fused in self.rewriter.fuser.bounded.values():
            if fused.mark not in seen and used & _variables(fused.mark):
                raise NoIterMap("the predicate bounds a fused loop that the indices take apart")

    def after_gap(
        self, mark: IterMark, waiting: list[IterSplit], reach: PrimExpr
    ) -> list[IterSplit]:
        """The next split where a part of the mark is left out."""
        if self.bijective:
            raise NoIterMap(f"a part of {_name(mark)} is used twice, or not at all")
        waiting.sort(key=lambda s: self.rewriter.analyzer.const_bounds(s.lower))
        if not self.rewriter.divides(waiting[0].lower, reach):
            raise NoIterMap(f"parts of {_name(mark)} overlap")
        return waiting[:1]

    def all_used(self, seen: set[IterMark]) -> None:
        """No loop variable is left out."""
        for var, mark in self.rewriter.marks.items():
            if mark not in seen and not p.is_const(mark.extent, 1):
                raise NoIterMap(f"the loop variable {var.name} is not used")


def _name(mark: IterMark) -> str:
    return mark.source.name if isinstance(mark.source, Var) else "a fused sum"


def _variables(mark: IterMark) -> set[Var]:
    if not isinstance(mark.source, IterSum):
        return {mark.source}
    return set().union(*(_variables(split.mark) for split in mark.source.splits))
