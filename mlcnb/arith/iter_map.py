"""Iteration maps: indices made of loop variables by splitting and fusing, and their inverse.

    i in 0..4, j in 0..8             [i * 8 + j]            fused
    f in 0..32                       [f // 8, f % 8]        split
                                     [(f // 8) * 2 + k]     split, then fused with k in 0..2

    IterMark(source, extent)                     a loop variable, or a fused sum
    IterSplit(mark, lower, extent, scale)        mark // lower % extent * scale
    IterSum(splits, base)                        their sum

`detect_iter_map` says whether a map is of this kind, and whether each point of the target is
reached exactly once (bijective), or each at most once with parts of loops left out (surjective).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.forms import flattened
from mlcnb.arith.iter_check import Check
from mlcnb.arith.iter_sum import IterMap, IterMapLevel, IterMark, IterSplit, IterSum, NoIterMap
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
        predicate: a condition on the loop variables; bounds of fused sums in it are understood.
        check_level: an IterMapLevel or its name: "nocheck", "surjective" (the indices take all
            combinations of their values) or "bijective" (each one once).
        analyzer: what is known of other variables.
        simplify_trivial_iterators: a loop of extent 1 counts as the number it starts at.
    """
    if isinstance(check_level, str):
        check_level = IterMapLevel.from_str(check_level)
    level = check_level
    analyzer = analyzer or Analyzer()
    indices = [p.as_expr(x) for x in indices]
    make = partial(_Rewriter, input_iters, analyzer, simplify_trivial_iterators)
    found = _attempt(indices, make, predicate, level, analyzer)
    if not found:
        with analyzer.scope():
            for var, domain in input_iters.items():
                analyzer.bind(var, domain)
            simple = [analyzer.simplify(x) for x in indices]
        again = _attempt(simple, make, predicate, level, analyzer)
        found = again or found
    return found


def _attempt(
    indices: Sequence[PrimExpr],
    make: Callable[[], _Rewriter],
    predicate: Any,
    level: IterMapLevel,
    analyzer: Analyzer,
) -> IterMap:
    """The map as the indices are written."""
    with analyzer.scope():
        rewriter = make()
        try:
            for condition in flattened(p.as_expr(predicate), e.And):
                rewriter.learn(condition)
            sums = tuple(rewriter.index(x) for x in indices)
            if level is not IterMapLevel.NoCheck:
                Check(rewriter, level is IterMapLevel.Bijective).sums(sums)
        except NoIterMap as error:
            return IterMap((), (error.message,))
    return IterMap(sums)


class _Rewriter:
    def __init__(
        self, input_iters: Mapping[Var, Range], analyzer: Analyzer, drops_trivial: bool
    ) -> None:
        self.analyzer = analyzer
        self.drops_trivial = drops_trivial
        self.marks: dict[Var, IterMark] = {}
        self.starts: dict[Var, PrimExpr] = {}
        self.fused: dict[Any, IterMark] = {}
        #: fused sums whose extent a predicate has cut
        self.cut: list[IterMark] = []
        for var, domain in input_iters.items():
            analyzer.bind(var, domain)
            self.starts[var] = domain.min
            self.marks[var] = IterMark(var, analyzer.simplify(domain.extent))

    def simple(self, x: Any) -> PrimExpr:
        return self.analyzer.simplify(x)

    def same(self, a: Any, b: Any) -> bool:
        return self.analyzer.can_prove_equal(a, b)

    def divides(self, x: PrimExpr, by: PrimExpr) -> bool:
        return self.same(p.floormod(x, by), 0) if not p.is_const(by, 0) else False

    # expressions to sums

    def index(self, x: PrimExpr) -> IterSum:
        """One index, with its splits fused into one where they are a fused sum."""
        made = self.rewrite(x)
        if len(made.splits) > 1:
            made = IterSum((self.fuse(made),), made.base)
        return made

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
                    splits[at] = IterSplit(old.mark, old.lower, old.extent, scale)
                return
        splits.append(_scaled(new, self.simple(new.scale * sign)))

    def multiply(self, x: PrimExpr, a: IterSum, b: IterSum) -> IterSum:
        if a.splits and b.splits:
            raise NoIterMap(f"{x!r} multiplies loop variables")
        if not a.splits:
            a, b = b, a
        splits = tuple(_scaled(s, self.simple(s.scale * b.base)) for s in a.splits)
        return IterSum(splits, self.simple(a.base * b.base))

    def divide(self, x: PrimExpr, a: IterSum, b: IterSum, is_mod: bool) -> IterSum:
        if b.splits:
            raise NoIterMap(f"{x!r} divides by a loop variable")
        by = b.base
        if not self.is_positive(by):
            raise NoIterMap(f"{x!r} divides by what may not be positive")
        if not a.splits:  # loops of one iteration only
            return IterSum((), self.simple((p.floormod if is_mod else p.floordiv)(a.base, by)))
        split = self.fuse(a)
        if not self.is_positive(split.scale):
            raise NoIterMap(f"{x!r} divides what runs backwards")
        if not self.divides(a.base, by):
            raise NoIterMap(f"{x!r}: the offset {a.base!r} is no multiple of {by!r}")
        part = self.modulo(x, split, by) if is_mod else self.quotient(x, split, by)
        base = p.const(0, by.dtype) if is_mod else self.simple(p.floordiv(a.base, by))
        return IterSum(() if part is None else (part,), base)

    def is_positive(self, by: PrimExpr) -> bool:
        """True for a positive number, or sizes multiplied and added: a size counts as positive."""
        form = self.analyzer.normal_form(by)
        if not form.terms:
            return form.const > 0
        return form.const >= 0 and all(factor > 0 for factor in form.terms.values())

    def steps(self, x: PrimExpr, split: IterSplit, by: PrimExpr) -> PrimExpr:
        """`by` counted in steps of the split's scale."""
        if not self.divides(by, split.scale):
            raise NoIterMap(f"{x!r}: the factor {split.scale!r} does not divide {by!r}")
        return self.simple(p.floordiv(by, split.scale))

    def quotient(self, x: PrimExpr, split: IterSplit, by: PrimExpr) -> IterSplit | None:
        if self.divides(split.scale, by):
            return _scaled(split, self.simple(p.floordiv(split.scale, by)))
        count = self.steps(x, split, by)
        if self.analyzer.can_prove(split.extent <= count):
            return None
        if not self.divides(split.extent, count):
            raise NoIterMap(f"{x!r}: {count!r} does not divide the extent {split.extent!r}")
        lower = self.simple(split.lower * count)
        extent = self.simple(p.floordiv(split.extent, count))
        return IterSplit(split.mark, lower, extent, p.const(1, by.dtype))

    def modulo(self, x: PrimExpr, split: IterSplit, by: PrimExpr) -> IterSplit | None:
        if self.divides(split.scale, by):
            return None
        count = self.steps(x, split, by)
        if self.analyzer.can_prove(split.extent <= count):
            return split
        if not self.divides(split.extent, count):
            raise NoIterMap(f"{x!r}: {count!r} does not divide the extent {split.extent!r}")
        return IterSplit(split.mark, split.lower, count, split.scale)

    # fusing

    def fuse(self, x: IterSum) -> IterSplit:
        """The splits as one: each one's scale is the product of the extents below it."""
        if len(x.splits) == 1:
            return x.splits[0]
        ordered = self.chain(list(x.splits))
        unit = ordered[0].scale
        reach = self.simple(ordered[-1].scale * ordered[-1].extent)
        total = self.simple(p.floordiv(reach, unit))
        key = self.key(ordered, unit)
        mark = self.fused.get(key)
        if mark is None:
            falling = reversed(ordered)
            inner = tuple(_scaled(s, self.simple(p.floordiv(s.scale, unit))) for s in falling)
            mark = self.fused[key] = IterMark(IterSum(inner, p.const(0, unit.dtype)), total)
        return IterSplit(mark, p.const(1, unit.dtype), mark.extent, unit)

    def chain(self, waiting: list[IterSplit]) -> list[IterSplit]:
        """The splits in order: each one's scale is what the one before it reaches."""
        numbers = [split for split in waiting if isinstance(split.scale, e.IntImm)]
        first = min(numbers or waiting[:1], key=lambda split: p.as_int(split.scale) or 0)
        ordered = [first]
        waiting.remove(first)
        while waiting:
            reach = self.simple(ordered[-1].scale * ordered[-1].extent)
            found = next((split for split in waiting if self.same(split.scale, reach)), None)
            if found is None:
                scale = min(waiting, key=lambda split: p.as_int(split.scale) or 0).scale
                raise NoIterMap(
                    f"a term has the factor {scale!r}; {reach!r} would fuse it with the terms below"
                )
            waiting.remove(found)
            ordered.append(found)
        return ordered

    def key(self, ordered: Sequence[IterSplit], unit: PrimExpr) -> Any:
        numbers = self.analyzer.normalizer.key
        return tuple(
            (
                id(s.mark),
                numbers(s.lower),
                numbers(s.extent),
                numbers(self.simple(p.floordiv(s.scale, unit))),
            )
            for s in ordered
        )

    def learn(self, condition: PrimExpr) -> None:
        """`i * 4 + j < 15` cuts the fused sum of i and j."""
        condition = self.simple(condition)
        if isinstance(condition, e.IntImm):
            return
        upper = _upper_bound(condition)
        if upper is None:
            raise NoIterMap(f"the predicate {condition!r} is no upper bound of a sum")
        left, bound = upper
        made, most = self.rewrite(left), self.rewrite(bound)
        if most.splits:
            raise NoIterMap(f"the predicate {condition!r} is no upper bound of a sum")
        if made.splits:  # else it says nothing of the loop variables
            self.cut_split(self.fuse(made), self.simple(most.base - made.base))

    def cut_split(self, split: IterSplit, limit: PrimExpr) -> None:
        """split * scale < limit"""
        extent = self.simple(p.ceildiv(limit, split.scale))
        if not p.is_const(split.lower, 1) or not self.same(split.extent, split.mark.extent):
            raise NoIterMap("the predicate bounds a part of a loop variable")
        cut = IterMark(split.mark.source, self.simple(p.minimum(extent, split.mark.extent)))
        self.cut.append(cut)
        for table in (self.marks, self.fused):
            for key, mark in table.items():
                if mark is split.mark:
                    table[key] = cut


def _scaled(split: IterSplit, scale: PrimExpr) -> IterSplit:
    return IterSplit(split.mark, split.lower, split.extent, scale)


def _upper_bound(condition: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """(x, c) where the condition is x < c."""
    match condition:
        case e.LT(a, b):
            return a, b
        case e.LE(a, b):
            return a, b + 1
        case e.GT(a, b):
            return b, a
        case e.GE(a, b):
            return b, a + 1
    return None
