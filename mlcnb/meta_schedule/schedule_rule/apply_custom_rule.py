"""ApplyCustomRule: a block that names its own rule is scheduled by it.

T.block_attr({"schedule_rule": "mine"})    register_func("meta_schedule.cpu.mine")(sch, block)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.registry import get_global_func
from mlcnb.dlight.looking import note
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule
from mlcnb.tir.schedule import Schedule


class ApplyCustomRule(ScheduleRule):
    """The function `meta_schedule.{cpu or cuda}.{name}` makes the schedules; "None" leaves it.

    Raises:
        MLCError: (in `apply`) no such function is registered.
    """

    kind = "apply-custom-rule"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """What the function gives: a schedule or several."""
        name = note(sch, block, "schedule_rule")
        if name is None or name == "None":
            return [sch]
        key = "cpu" if self.target.kind == "llvm" else str(self.target.kind)
        wanted = f"meta_schedule.{key}.{name}"
        function = get_global_func(wanted, allow_missing=True)
        if function is None:
            raise MLCError(
                f"ApplyCustomRule: no function {wanted!r}",
                hint=f'@mlcnb.register_func("{wanted}") above a function of (sch, block)',
            )
        made = function(sch, block)
        return list(made) if isinstance(made, list | tuple) else [made or sch]
