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
        if any(mark not in seen for mark in self.rewriter.cut):
            raise NoIterMap("the predicate bounds a fused loop that the indices take apart")
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
        if not self.rewriter.same(reach, mark.extent):
            if self.bijective or not self.rewriter.analyzer.can_prove(reach <= mark.extent):
                raise NoIterMap(
                    f"{reach!r} of {mark.extent!r} values of {_name(mark)} are told apart"
                )

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
