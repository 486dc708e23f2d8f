"""Boxes that index regions cover: for sure (lower, strict) or at most (upper).

for i, j in T.grid(4, 8): A[i * 8 + j : i * 8 + j + 1]     every element of A[0:32]
for i in range(4):        A[i * 4 : i * 4 + 2]             none surely; at most A[0:14]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.int_set import EVERYTHING, IntSet, set_of
from mlcnb.arith.iter_map import detect_iter_map
from mlcnb.arith.iter_sum import IterSplit, IterSum
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntSet] | None:
    """The box that a region covers while variables run, if it is covered without holes.

    Args:
        region: a Range for each dimension, in terms of the variables.
        var_dom: the variables and their ranges.
        predicate: a condition on them.

    Returns:
        An interval for each dimension; None where the box has holes or is not understood.
    """
    if any(n in var_dom for bounds in region for n in walk(bounds.extent)):
        return None
    analyzer = Analyzer()
    firsts = [bounds.min for bounds in region]
    found = detect_iter_map(firsts, var_dom, predicate, "surjective", analyzer)
    if not found:
        return None
    sides = [_side(x, b, analyzer) for x, b in zip(found.indices, region, strict=True)]
    return None if None in sides else sides  # type: ignore[return-value]


estimate_region_lower_bound = estimate_region_strict_bound


def _side(made: IterSum, bounds: Range, analyzer: Analyzer) -> IntSet | None:
    """One dimension: steps of `scale` that the extent of the slice fills."""
    if not made.splits:
        return _interval(made.base, bounds.extent)
    if len(made.splits) != 1:
        return None
    split = made.splits[0]
    if analyzer.can_prove(p.less(split.scale, 0)):  # it runs backwards
        run = (split.extent - 1) * split.scale
        split = IterSplit(split.mark, split.lower, split.extent, p.neg(split.scale))
        made = IterSum((split,), analyzer.simplify(made.base + run))
    if not analyzer.can_prove(p.less_equal(split.scale, bounds.extent)):
        return None
    if not analyzer.can_prove(p.less(0, split.scale)):
        return None
    return _interval(made.base, (split.extent - 1) * split.scale + bounds.extent)


def _interval(first: PrimExpr, extent: PrimExpr) -> IntSet:
    return IntSet.from_range(Range(first, Analyzer().simplify(extent)))


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntSet]:
    """The box that a region never leaves while variables run.

    Exact where `estimate_region_strict_bound` is; else each dimension by itself, the predicate not
    used.
    """
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    if exact is not None:
        return exact
    return [domain_of(bounds, var_dom) for bounds in region]


def domain_of(bounds: Range, var_dom: Mapping[Var, Range]) -> IntSet:
    """The interval that a range never leaves while variables run."""
    low = set_of(bounds.min, var_dom).low
    high = set_of(bounds.min + bounds.extent - 1, var_dom).high
    return EVERYTHING if low is None and high is None else IntSet(low, high)
