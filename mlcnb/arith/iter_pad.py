"""Divisions that do not come out even: what is divided is padded on both sides.

    x in 0..26     x // 15               0 .. 2 of x padded to 30
    y in 0..176    (y + 80) // 32        2 + 0 .. 6 of y shifted by 16 and padded to 192

One loop is padded for all its divisors at once, so that its parts fit together: a first reading
of the indices collects them.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.iter_fuse import Fuser, Key
from mlcnb.arith.iter_sum import IterMark, IterSplit, IterSum, NoIterMap, whole
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr


class Padding:
    """The padded loops of one map."""

    def __init__(self, analyzer: Analyzer, fuser: Fuser, allowed: bool) -> None:
        self.analyzer = analyzer
        self.fuser = fuser
        self.allowed = allowed
        #: False while the divisors are collected
        self.is_known = False
        self.divisors: dict[Key, PrimExpr] = {}
        #: what is to be padded
        self.needed: set[Key] = set()
        self.marks: dict[Key, IterMark] = {}
        #: padded mark -> (what it is padded for, how many values it has, the first of them)
        self.origin: dict[IterMark, tuple[Key, PrimExpr, PrimExpr]] = {}

    @property
    def is_used(self) -> bool:
        """True if something was padded."""
        return bool(self.needed)

    def aligned(
        self, x: PrimExpr, split: IterSplit, offset: PrimExpr, count: PrimExpr
    ) -> tuple[IterSplit, PrimExpr]:
        """split + offset as a split that `count` divides plus a multiple of it.

        Raises:
            NoIterMap: that needs padding, and there must be none.
        """
        key = self.key(split, offset)
        fits = self.fuser.divides(offset, count)
        is_small = self.analyzer.can_prove(split.extent <= count)
        if not self.is_known:
            self.add(key, count)
        if key not in self.needed and fits:
            if is_small or self.fuser.divides(split.extent, count):
                return split, offset
        if not self.allowed:
            raise NoIterMap(
                f"{x!r}: {count!r} does not divide the extent {split.extent!r}"
                if fits
                else f"{x!r}: the offset {offset!r} is no multiple of {count!r}"
            )
        if not self.is_known and split.mark in self.origin:
            return self.collected(split, offset, count)
        return self.padded(key, split, offset, count)

    def collected(
        self, split: IterSplit, offset: PrimExpr, count: PrimExpr
    ) -> tuple[IterSplit, PrimExpr]:
        """A part of a padded loop, as if it were padded enough: it will be."""
        key = self.origin[split.mark][0]
        self.add(key, self.simple(split.lower * count))
        extent = self.simple(p.ceildiv(split.extent, count) * count)
        return IterSplit(split.mark, split.lower, extent, split.scale), offset

    def padded(
        self, key: Key, split: IterSplit, offset: PrimExpr, count: PrimExpr
    ) -> tuple[IterSplit, PrimExpr]:
        """A split shifted and padded to what its divisors need, and what is left of the offset."""
        if not self.is_known:
            self.needed.add(key)
        by = self.divisors[key] if key in self.needed else count
        left = self.simple(p.floormod(offset, by))
        mark = self.marks.get((*key, self.number(by)))
        if mark is None:
            extent = self.simple(p.ceildiv(left + split.extent, by) * by)
            inner = split.scaled(p.const(1, left.dtype))
            mark = self.marks[*key, self.number(by)] = IterMark(IterSum((inner,), left), extent)
            self.origin[mark] = key, split.extent, left
        return whole(mark, split.scale), self.simple(offset - left)

    def add(self, key: Key, by: PrimExpr) -> None:
        """One more divisor of what is padded: the least that all of them divide."""
        old = self.divisors.get(key, by)
        if self.fuser.divides(old, by):
            self.divisors[key] = old
        elif self.fuser.divides(by, old):
            self.divisors[key] = by
        else:
            self.divisors[key] = self.simple(old * by)

    def key(self, split: IterSplit, offset: PrimExpr) -> Key:
        """What tells apart what is padded: a part of a mark, shifted."""
        number = self.number
        return id(split.mark), number(split.lower), number(split.extent), number(offset)

    def number(self, x: PrimExpr) -> Any:
        """An expression as part of a key."""
        return self.analyzer.normalizer.key(x)

    def simple(self, x: Any) -> PrimExpr:
        """Short form."""
        return self.analyzer.simplify(x)
