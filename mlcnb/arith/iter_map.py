"""Iteration maps: indices made of loop variables by splitting and fusing, and their inverse.

    i in 0..4, j in 0..8             [i * 8 + j]            fused
    f in 0..32                       [f // 8, f % 8]        split
                                     [(f // 8) * 2 + k]     split, then fused with k in 0..2
    x in 0..26                       [x // 15]              split of x padded to 30 (surjective)

`detect_iter_map` says whether a map is of this kind, and whether each point of the target is
reached exactly once (bijective), or each at least once (surjective).

What is divided and does not come out even is padded on both sides. One loop is padded for all its
divisors at once, so that its parts fit together: a first reading of the indices collects them.

    x in 0..26     x // 15               0 .. 2 of x padded to 30
    y in 0..176    (y + 80) // 32        2 + 0 .. 6 of y shifted by 16 and padded to 192
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.forms import flattened
from mlcnb.arith.iter_bounds import Bounded, bounded_sums
from mlcnb.arith.iter_check import Check
from mlcnb.arith.iter_fuse import Fuser, Key
from mlcnb.arith.iter_sum import (
    IterMap,
    IterMapLevel,
    IterMark,
    IterSplit,
    IterSum,
    NoIterMap,
    whole,
)
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: str | IterMapLevel = "surjective",
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> IterMap:
    """The indices as sums of splits of the loop variables.

    Args:
        indices: integer expressions.
        input_iters: the loop variables and their ranges; other variables count as fixed.
        predicate: a condition on the loop variables; bounds of sums in it are understood.
        check_level: an IterMapLevel or its name: "nocheck", "surjective" (the indices take all
            combinations of their values; loops may be padded and overlap) or "bijective" (each
            one once).
        analyzer: what is known of other variables.
        simplify_trivial_iterators: a loop of extent 1 counts as the number it starts at.
    """
    if isinstance(check_level, str):
        check_level = IterMapLevel.from_str(check_level)
    analyzer = analyzer or Analyzer()
    indices = [p.as_expr(x) for x in indices]
    conditions = list(flattened(p.as_expr(predicate), e.And))
    attempt = _Attempt(input_iters, check_level, analyzer, simplify_trivial_iterators)
    found = attempt.map_of(indices, conditions)
    if not found:
        with analyzer.scope(input_iters):
            short = [[analyzer.simplify(x) for x in each] for each in (indices, conditions)]
        found = attempt.map_of(*short) or found
    return found


@dataclass
class _Attempt:
    """What all attempts at one map have in common."""

    input_iters: Mapping[Var, Range]
    level: IterMapLevel
    analyzer: Analyzer
    drops_trivial: bool

    def map_of(self, indices: Sequence[PrimExpr], conditions: Sequence[PrimExpr]) -> IterMap:
        """The map as the indices and conditions are written."""
        with self.analyzer.scope():
            try:
                sums = self._sums(indices, conditions)
            except NoIterMap as error:
                return IterMap((), (error.message,))
        return IterMap(sums)

    def _sums(
        self, indices: Sequence[PrimExpr], conditions: Sequence[PrimExpr]
    ) -> tuple[IterSum, ...]:
        loose = self.level is IterMapLevel.Surjective
        rewriter = _Rewriter(self.input_iters, self.analyzer, self.drops_trivial, loose)
        for bounds in bounded_sums(self.analyzer, conditions, self.input_iters):
            rewriter.learn(bounds)
        rewriter.fuser.check_bounds()
        sums = tuple(rewriter.index(x) for x in indices)
        if rewriter.padding.is_used:  # now that all divisors are known
            rewriter.padding.is_known = True
            sums = tuple(rewriter.index(x) for x in indices)
        if self.level is not IterMapLevel.NoCheck:
            Check(rewriter, self.level is IterMapLevel.Bijective).sums(sums)
        return sums


class _Rewriter:
    """Index expressions as sums of splits."""

    def __init__(
        self,
        input_iters: Mapping[Var, Range],
        analyzer: Analyzer,
        drops_trivial: bool,
        loose: bool,
    ) -> None:
        self.analyzer = analyzer
        self.drops_trivial = drops_trivial
        self.fuser = Fuser(analyzer, overlaps=loose)
        self.simple, self.same = analyzer.simplify, self.fuser.same
        self.divides = self.fuser.divides
        self.padding = Padding(analyzer, self.fuser, allowed=loose)
        self.marks: dict[Var, IterMark] = {}
        self.starts: dict[Var, PrimExpr] = {}
        for var, domain in input_iters.items():
            analyzer.bind(var, domain)
            self.starts[var] = domain.min
            self.marks[var] = IterMark(var, analyzer.simplify(domain.extent))

    def index(self, x: PrimExpr) -> IterSum:
        """One index, with its splits fused into one where they are a fused sum."""
        return self.fuser.fuse(self.rewrite(x))

    def learn(self, bounds: Bounded) -> None:
        """`i * 4 + j < 15` cuts the fused sum of i and j."""
        made = self.rewrite(bounds.value)
        if made.splits:  # else it says nothing of the loop variables
            self.fuser.bound(made, bounds)

    def rewrite(self, x: PrimExpr) -> IterSum:
        if not any(isinstance(n, Var) and n in self.marks for n in walk(x)):
            return IterSum((), x)
        match x:
            case e.Var():
                return self.variable(x)
            case e.Add(a, b):
                return self.add(self.rewrite(a), self.rewrite(b), 1)
            case e.Sub(a, b):
                return self.add(self.rewrite(a), self.rewrite(b), -1)
            case e.Mul(a, b):
                return self.multiply(x, self.rewrite(a), self.rewrite(b))
            case e.FloorDiv(a, b):
                return self.divide(x, self.rewrite(a), self.rewrite(b), False)
            case e.FloorMod(a, b):
                return self.divide(x, self.rewrite(a), self.rewrite(b), True)
        raise NoIterMap(f"{x!r} is no sum of splits of loop variables")

    def variable(self, x: Var) -> IterSum:
        mark = self.marks[x]
        one = p.const(1, x.dtype)
        if self.drops_trivial and p.is_const(mark.extent, 1):
            return IterSum((), self.starts[x])
        return IterSum((IterSplit(mark, one, mark.extent, one),), self.starts[x])

    def add(self, a: IterSum, b: IterSum, sign: int) -> IterSum:
        splits = list(a.splits)
        for split in b.splits:
            self.add_split(splits, split, sign)
        return IterSum(tuple(splits), self.simple(a.base + b.base * sign))

    def add_split(self, splits: list[IterSplit], new: IterSplit, sign: int) -> None:
        for at, old in enumerate(splits):
            part = old.mark is new.mark and self.same(old.lower, new.lower)
            if part and self.same(old.extent, new.extent):
                scale = self.simple(old.scale + new.scale * sign)
                if p.is_const(scale, 0):
                    splits.pop(at)
                else:
                    splits[at] = old.scaled(scale)
                return
        splits.append(new.scaled(self.simple(new.scale * sign)))

    def multiply(self, x: PrimExpr, a: IterSum, b: IterSum) -> IterSum:
        if a.splits and b.splits:
            raise NoIterMap(f"{x!r} multiplies loop variables")
        if not a.splits:
            a, b = b, a
        by = self.simple(b.base)
        if p.is_const(by, 0):
            return IterSum((), by)
        splits = tuple(s.scaled(self.simple(s.scale * by)) for s in a.splits)
        return IterSum(splits, self.simple(a.base * by))

    def divide(self, x: PrimExpr, a: IterSum, b: IterSum, is_mod: bool) -> IterSum:
        if b.splits:
            raise NoIterMap(f"{x!r} divides by a loop variable")
        by = b.base
        if not a.splits:  # loops of one iteration only
            return IterSum((), self.simple((p.floormod if is_mod else p.floordiv)(a.base, by)))
        if not self.is_positive(by):
            raise NoIterMap(f"{x!r} divides by what may not be positive")
        a = self.fuser.fuse(a)
        (split,) = a.splits
        if not self.is_positive(split.scale):
            raise NoIterMap(f"{x!r} divides what runs backwards")
        if self.divides(split.scale, by):
            return self.divide_scale(a, by, is_mod)
        return self.divide_part(x, a, by, is_mod)

    def is_positive(self, by: PrimExpr) -> bool:
        """True for a positive number, or sizes multiplied and added: a size counts as positive."""
        form = self.analyzer.normal_form(by)
        if not form.terms:
            return form.const > 0
        return form.const >= 0 and all(factor > 0 for factor in form.terms.values())

    def divide_scale(self, a: IterSum, by: PrimExpr, is_mod: bool) -> IterSum:
        """(split * by * k + base) // by is split * k + base // by."""
        if is_mod:
            return IterSum((), self.simple(p.floormod(a.base, by)))
        scale = self.simple(p.floordiv(a.splits[0].scale, by))
        return IterSum((a.splits[0].scaled(scale),), self.simple(p.floordiv(a.base, by)))

    def divide_part(self, x: PrimExpr, a: IterSum, by: PrimExpr, is_mod: bool) -> IterSum:
        """(split * scale + base) // by, counted in steps of the scale."""
        (split,) = a.splits
        scale = split.scale
        if not self.divides(by, scale):
            raise NoIterMap(f"{x!r}: the factor {scale!r} does not divide {by!r}")
        count = self.simple(p.floordiv(by, scale))
        offset = self.simple(p.floordiv(a.base, scale))
        split, offset = self.padding.aligned(x, split, offset, count)
        part = self.part(split, count, is_mod)
        if is_mod:
            return IterSum(part, self.simple(p.floormod(a.base, scale)))
        return IterSum(part, self.simple(p.floordiv(offset, count)))

    def part(self, split: IterSplit, count: PrimExpr, is_mod: bool) -> tuple[IterSplit, ...]:
        """split // count or split % count, where all fits."""
        if self.analyzer.can_prove(split.extent <= count):
            return (split,) if is_mod else ()
        if is_mod:
            return (IterSplit(split.mark, split.lower, count, split.scale),)
        lower = self.simple(split.lower * count)
        extent = self.simple(p.floordiv(split.extent, count))
        return (IterSplit(split.mark, lower, extent, p.const(1, count.dtype)),)


class Padding:
    """The padded loops of one map."""

    def __init__(self, analyzer: Analyzer, fuser: Fuser, allowed: bool) -> None:
        self.analyzer = analyzer
        self.simple = analyzer.simplify
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
