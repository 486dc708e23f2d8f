"""The inverse of a bijective iteration map."""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.iter_sum import IterMap, IterMark, IterSum
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var


def inverse_affine_iter_map(
    iter_map: IterMap | Sequence[IterSum], outputs: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """Loop variables as expressions of what the indices of a bijective map are.

    A variable that is missing takes one value only.
    """
    sums = iter_map.indices if isinstance(iter_map, IterMap) else iter_map
    analyzer = Analyzer()
    values: dict[IterMark, PrimExpr] = {}
    order: list[IterMark] = []

    def give(made: IterSum, value: PrimExpr) -> None:
        """Tell the splits of a sum what they are."""
        value = value - p.cast(value.dtype, made.base)
        for at, split in enumerate(made.splits):
            kind = value.dtype
            part = p.floordiv(value, p.cast(kind, split.scale))
            if at:  # nothing stands above the first
                part = p.floormod(part, p.cast(kind, split.extent))
            part = part * p.cast(kind, split.lower)
            known = values.get(split.mark)
            values[split.mark] = part if known is None else known + part
            if split.mark in order:
                order.remove(split.mark)
            order.append(split.mark)

    for made, output in zip(sums, outputs, strict=True):
        give(made, output)
    found: dict[Var, PrimExpr] = {}
    while order:
        mark = next(m for m in order if not _is_inside(m, order))
        order.remove(mark)
        if isinstance(mark.source, IterSum):
            give(mark.source, values[mark])
        else:
            found[mark.source] = analyzer.simplify(values[mark])
    return found


def _is_inside(mark: IterMark, others: Sequence[IterMark]) -> bool:
    """True if `mark` stands in the source of one of the others, which must go first."""
    for other in others:
        if other is not mark and isinstance(other.source, IterSum):
            inner = [split.mark for split in other.source.splits]
            if mark in inner or _is_inside(mark, inner):
                return True
    return False
