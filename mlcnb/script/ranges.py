"""Ranges as slices: `A[i * 4:i * 4 + 4]` is min `i * 4`, extent 4. One rule for printer and parser.

`range_end(lo, extent)` builds the end that is printed, `range_extent(lo, end)` finds the extent.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range
from mlcnb.ir.structural import structural_equal


def range_end(lo: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """lo + extent, folded only where both are constants or lo is 0."""
    if p.is_const(lo, 0) and isinstance(lo, e.IntImm):
        return extent
    if isinstance(lo, e.IntImm) and isinstance(extent, e.IntImm):
        return e.IntImm(lo.dtype, lo.value + extent.value)
    return e.Add(lo, extent)


def range_extent(lo: PrimExpr, end: PrimExpr) -> PrimExpr:
    """The extent behind an end: what `range_end` added, else end - lo simplified."""
    if p.is_const(lo, 0):
        return end
    if isinstance(lo, e.IntImm) and isinstance(end, e.IntImm):
        return p.const(end.value - lo.value, end.dtype)
    if isinstance(end, e.Add) and structural_equal(end.a, lo):
        return end.b
    return _simplified(p.subtract(end, lo))


def _simplified(x: Any) -> PrimExpr:
    from mlcnb.arith import simplify

    return simplify(x)


def make_range(lo: Any, end: Any) -> Range:
    """The range from `lo` up to `end`, numbers taken in the dtype of the other side."""
    lo, end = p.match_dtypes(lo, end)
    return Range(lo, range_extent(lo, end))


def is_printable_as_slice(lo: PrimExpr, extent: PrimExpr) -> bool:
    """True where `lo:range_end(lo, extent)` reads back as the same range."""
    if lo.dtype != extent.dtype:
        return False
    return structural_equal(range_extent(lo, range_end(lo, extent)), extent)
