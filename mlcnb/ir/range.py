"""Range as TVM's programs write it: by begin and end. `ir.expr.Range` holds a begin and an extent.

ir.Range(2, 10)                     2, 3, …, 9
ir.Range(8)                         0, 1, …, 7
ir.Range.from_min_extent(2, 10)     2, 3, …, 11
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p


class _ByEnds(type):
    """Its class stands for `ir.expr.Range`: what a call gives, and what `isinstance` asks."""

    def __call__(cls, begin: Any, end: Any = None) -> e.Range:
        if end is None:
            begin, end = p.const(0, getattr(begin, "dtype", None)), begin
        low, high = p.match_dtypes(begin, end)
        return e.Range(low, p.subtract(high, low))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, e.Range)


class Range(metaclass=_ByEnds):
    """The integers from begin up to end; of one number, from 0 up to it."""

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> e.Range:
        """The integers min, min + 1, …, min + extent - 1."""
        return e.Range(min_value, extent)
