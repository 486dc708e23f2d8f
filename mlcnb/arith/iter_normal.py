"""Iteration maps in use: indices simplified through them, sums of splits written and divided.

iter_map_simplify        [(i * 8 + j) // 8, j % 8]     ->  [i, j]              i in 0..4, j in 0..8
normalize_to_iter_sum    j + i * 8 + n                 ->  i * 8 + j, base n   largest step first
subspace_divide          [i * 8 + j], j inside         ->  outer i, inner j
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.emission import atom_expr, emit
from mlcnb.arith.int_set import set_of
from mlcnb.arith.iter_map import detect_iter_map
from mlcnb.arith.iter_sum import IterMapLevel, IterMark, IterSplit, IterSum
from mlcnb.arith.linear import depends_on
from mlcnb.arith.poly import Atom, Poly
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var


def normalize_iter_map_to_expr(x: IterSum | IterSplit) -> PrimExpr:
    """A sum of splits (or one split) as an expression again, as it is fused: (i * 8 + j) * 2."""
    return _sum_expr(x) if isinstance(x, IterSum) else _split_expr(x)


def _sum_expr(x: IterSum) -> PrimExpr:
    total: PrimExpr = p.const(0, x.base.dtype)
    for split in x.splits:
        total = total + _split_expr(split)
    return total + x.base


def _split_expr(x: IterSplit) -> PrimExpr:
    source = x.mark.source
    value = _sum_expr(source) if isinstance(source, IterSum) else source
    if not Analyzer().can_prove_equal(x.lower * x.extent, x.mark.extent):
        value = p.floormod(value, x.lower * x.extent)
    return p.floordiv(value, x.lower) * x.scale


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
    with analyzer.scope():
        for var, domain in input_iters.items():
            analyzer.bind(var, domain)
        return [analyzer.simplify(_from_zero(made, input_iters)) for made in found.indices]


def _from_zero(made: IterSum, starts: Mapping[Var, Range]) -> PrimExpr:
    """The expression of a sum whose variables count from the start of their ranges."""

    def splits(x: IterSum) -> PrimExpr:
        total = x.base
        for split in x.splits:
            source = split.mark.source
            if isinstance(source, IterSum):
                value = splits(source)
            else:
                value = source - p.cast(source.dtype, starts[source].min)
            part = p.floordiv(p.floormod(value, split.lower * split.extent), split.lower)
            total = total + part * split.scale
        return total

    return splits(made)


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSum:
    """An index as a sum of splits, largest step first, whatever it is made of.

    A term that is no split of one variable becomes an iterator of its own; terms without variables
    of `input_iters` are the base.
    """
    analyzer = Analyzer()
    for var, domain in input_iters.items():
        analyzer.bind(var, domain)
    form = analyzer.normal_form(index)
    variables, kind = set(input_iters), index.dtype
    base = Poly(form.const)
    splits: list[IterSplit] = []
    for monomial, factor in form.terms.items():
        term = Poly(0, {monomial: factor})
        if not depends_on(term, variables):
            base = base.plus(term)
            continue
        running = [atom for atom in monomial if depends_on(Poly(0, {(atom,): 1}), variables)]
        rest = tuple(atom for atom in monomial if atom not in running)
        scale = emit(Poly(0, {rest: factor}) if rest else Poly(factor), kind)
        splits.append(_split_of(running, scale, input_iters, kind))
    splits.sort(key=lambda split: -abs(p.as_int(split.scale) or 1 << 62))
    return IterSum(tuple(splits), emit(base, kind))


def _split_of(
    running: Sequence[Atom], scale: PrimExpr, input_iters: Mapping[Var, Range], kind: DType
) -> IterSplit:
    """One term: a variable, a part of one, or an iterator of its own."""
    one = p.const(1, kind)
    atom = running[0]
    if len(running) == 1 and atom.kind == "var":
        mark = IterMark(atom.expr, input_iters[atom.expr].extent)  # type: ignore[index]
        return IterSplit(mark, one, mark.extent, scale)
    if len(running) == 1 and atom.kind == "split":
        inner, lower, upper = atom.args
        source = inner.single_atom()
        if source is not None and source.kind == "var":
            whole = input_iters[source.expr].extent
            extent = p.const(upper // lower, kind) if upper else p.ceildiv(whole, lower)
            return IterSplit(IterMark(source.expr, whole), p.const(lower, kind), extent, scale)
    value = emit(Poly(0, {tuple(running): 1}), kind) if len(running) > 1 else atom_expr(atom, kind)
    reach = set_of(value, input_iters)
    extent = p.const(p.max_value(str(kind)).value, kind)  # type: ignore[attr-defined]
    if reach.high is not None:
        extent = Analyzer().simplify(reach.high + 1)
    return IterSplit(IterMark(value, extent), one, extent, scale)


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[tuple[IterSum, IterSum]]:
    """Each binding as outer * extent of inner + inner, where `sub_iters` run in the inner part.

    Returns:
        (outer, inner) for each binding; [] where a binding mixes the two.
    """
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, analyzer, simplify_trivial_iterators
    )
    if not found:
        return []
    parts = [_divided(made, set(sub_iters)) for made in found.indices]
    return [] if None in parts else parts  # type: ignore[return-value]


def _divided(made: IterSum, inner: set[Var]) -> tuple[IterSum, IterSum] | None:
    splits, zero = made.splits, p.const(0, made.base.dtype)
    if len(splits) == 1 and _is_whole(splits[0]):
        splits = splits[0].mark.source.splits
    low = [split for split in splits if _uses_only(split, inner)]
    high = [split for split in splits if _uses_none(split, inner)]
    if len(low) + len(high) != len(splits):
        return None
    if not high:
        return IterSum((), zero), IterSum(tuple(low), made.base)
    if not low:
        return IterSum(tuple(high), made.base), IterSum((), zero)
    analyzer = Analyzer()
    extent: PrimExpr = p.const(1, zero.dtype)
    for split in low:
        extent = extent * split.extent
    extent = analyzer.simplify(extent)
    if any(not analyzer.can_prove(p.equal(p.floormod(s.scale, extent), 0)) for s in high):
        return None
    outer = tuple(
        IterSplit(s.mark, s.lower, s.extent, analyzer.simplify(p.floordiv(s.scale, extent)))
        for s in high
    )
    return IterSum(outer, zero), IterSum(tuple(low), made.base)


def _is_whole(split: IterSplit) -> bool:
    """True for a fused sum as it is, no part of it."""
    mark = split.mark
    plain = p.is_const(split.lower, 1) and p.is_const(split.scale, 1)
    return (
        isinstance(mark.source, IterSum)
        and plain
        and Analyzer().can_prove_equal(split.extent, mark.extent)
    )


def _variables(split: IterSplit) -> set[Var]:
    source = split.mark.source
    if isinstance(source, IterSum):
        return set().union(*map(_variables, source.splits))
    return {source}


def _uses_only(split: IterSplit, variables: set[Var]) -> bool:
    return _variables(split) <= variables


def _uses_none(split: IterSplit, variables: set[Var]) -> bool:
    return not _variables(split) & variables
