"""Schedule rules: one step of making a space of schedules.

    rule.apply(sch, block) -> schedules      [sch] where it does not fit the block

They do what TVM's of the same names do, with the public primitives alone: what is open is a draw
(`sample_…`), so that a trace can be played again with other numbers.
"""

from __future__ import annotations

from mlcnb.meta_schedule.part import found
from mlcnb.meta_schedule.schedule_rule.rule import PyScheduleRule, ReuseType, ScheduleRule

__all__ = ["PyScheduleRule", "ReuseType", "ScheduleRule"]
__getattr__ = found(globals())
