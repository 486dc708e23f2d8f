"""Iteration maps in use: indices simplified through them, sums of splits written.

iter_map_simplify        [(i * 8 + j) // 8, j % 8]     ->  [i, j]              i in 0..4, j in 0..8
normalize_to_iter_sum    j + i * 8 + n                 ->  i * 8 + j, base n   largest step first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.emission import emit
from mlcnb.arith.iter_fuse import step_size
from mlcnb.arith.iter_map import detect_iter_map
from mlcnb.arith.iter_sum import IterMapLevel, IterMark, IterSplit, IterSum, whole
from mlcnb.arith.linear import depends_on
from mlcnb.arith.sum import Atom, Sum, product_of
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var


def normalize_iter_map_to_expr(x: IterSum | IterSplit) -> PrimExpr:
    """A sum of splits (or one split) as an expression again, as it is fused: (i * 8 + j) * 2."""
    return _Written({}).sum(x) if isinstance(x, IterSum) else _Written({}).split(x)


class _Written:
    """Sums of splits as expressions; variables count from the start of their ranges."""

    def __init__(self, ranges: Mapping[Var, Range]) -> None:
        self.ranges = ranges
        self.analyzer = Analyzer()

    def sum(self, x: IterSum) -> PrimExpr:
        total: PrimExpr = p.const(0, x.base.dtype)
        for split in x.splits:
            total = total + self.split(split)
        return total + x.base

    def split(self, x: IterSplit) -> PrimExpr:
        value = self.source(x.mark.source)
        if not self.analyzer.can_prove_equal(x.lower * x.extent, x.mark.extent):
            value = p.floormod(value, x.lower * x.extent)
        return p.floordiv(value, x.lower) * x.scale

    def source(self, x: Any) -> PrimExpr:
        if isinstance(x, IterSum):
            return self.sum(x)
        start = self.ranges[x].min if x in self.ranges else 0
        return x - p.cast(x.dtype, p.as_expr(start)) if not p.is_const(start, 0) else x


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """Indices in short form, each part of a loop variable taken from it directly.

    Arguments as for `detect_iter_map`; indices that are no iteration map come back as they are.
    """
    analyzer = analyzer or Analyzer()
    found = detect_iter_map(
        indices, input_iters, predicate, check_level, analyzer, simplify_trivial_iterators
    )
    if not found:
        return list(indices)
    written = _Written(input_iters)
    with analyzer.scope():
        for var, domain in input_iters.items():
            if simplify_trivial_iterators or not p.is_const(domain.extent, 1):
                analyzer.bind(var, domain)
        return [_shorter(written.sum(made), analyzer) for made in found.indices]


def _shorter(x: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """`x` in normal form where that is shorter: else it keeps its order."""
    short = analyzer.simplify(x)
    return short if len(list(walk(short))) < len(list(walk(x))) else x


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSum:
    """An index as a sum of splits, largest step first, whatever it is made of.

    What is no sum of variables and their parts stays in the base.
    """
    analyzer = Analyzer(input_iters)
    form = analyzer.normal_form(index)
    variables, kind = set(input_iters), index.dtype
    base = Sum(form.const)
    splits: list[IterSplit] = []
    for atom, factor in form.terms.items():
        running = [x for x in atom.factors if depends_on(Sum(0, {x: 1}), variables)]
        rest = [x for x in atom.factors if x not in running]
        scale = emit(Sum(0, {product_of(rest): factor}) if rest else Sum(factor), kind)
        split = _split_of(running[0], scale, input_iters, kind) if len(running) == 1 else None
        if split is None:
            base = base.plus(Sum(0, {atom: factor}))
        else:
            splits.append(split)
    splits.sort(key=lambda split: step_size(analyzer, split.scale), reverse=True)
    return IterSum(tuple(splits), emit(base, kind))


def _split_of(
    atom: Atom, scale: PrimExpr, input_iters: Mapping[Var, Range], kind: DType
) -> IterSplit | None:
    """A variable or a part of one; None for anything else."""
    if atom.kind == "var":
        var: Any = atom.expr
        return whole(IterMark(var, input_iters[var].extent), scale)
    if atom.kind != "split":
        return None
    inner, lower, upper = atom.args
    source = inner.only_atom
    if source is None or source.kind != "var":
        return None
    mark = IterMark(source.expr, input_iters[source.expr].extent)
    extent = p.const(upper // lower, kind) if upper else p.ceildiv(mark.extent, lower)
    return IterSplit(mark, p.const(lower, kind), extent, scale)
