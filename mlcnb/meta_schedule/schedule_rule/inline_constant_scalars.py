"""InlineConstantScalars: a block that makes one number of nothing goes into who reads it.

for _ in range(1):                     ->
    with T.block("one"): c[()] = 3.0           B[i] = A[i] * 3.0
B[i] = A[i] * c[()]
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.schedule import Schedule


class InlineConstantScalars(ScheduleRule):
    """Blocks that read nothing and write one element, of any dtype."""

    kind = "inline-constant-scalars"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule without the block, where it is a constant with consumers."""
        node = sch.get(block)
        if node.reads or len(node.writes) != 1 or node.iter_vars and node.init is not None:
            return [sch]
        if any(as_int(n) != 1 for n in node.writes[0].buffer.shape) or not sch.get_consumers(block):
            return [sch]
        return [tried(sch, lambda s: s.compute_inline(block)) or sch]
