"""ApplyDefaultSchedule: the default schedules as a pass over a module."""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class ApplyDefaultSchedule(PrimFuncPass):
    """Schedule every PrimFunc that nobody has scheduled, for the current target."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function scheduled by the first rule that fits."""
        sch = schedule_cpu(func, Target.current() or Target("llvm"))
        if sch is None:
            return func
        done: PrimFunc = sch.mod[sch.func_working_on]
        ctx.note(f"{len(sch.trace.insts)} steps")
        return done.with_attr("tir.is_scheduled", True)  # type: ignore[return-value]
