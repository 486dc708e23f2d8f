"""ApplyDefaultSchedule: ready schedules as a pass over a module."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.gpu import schedule_gpu
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class ApplyDefaultSchedule(PrimFuncPass):
    """Schedule every PrimFunc that nobody has scheduled, for the current target.

    ApplyDefaultSchedule(dl.gpu.Reduction(), dl.gpu.Fallback())    the first rule that takes it
    ApplyDefaultSchedule()                                         the rules of the target

    A rule is what has `apply(func, target, tunable) -> Schedule | None`.
    """

    def __init__(self, *rules: Any) -> None:
        for rule in rules:
            if not callable(getattr(rule, "apply", None)):
                raise PassError(
                    f"ApplyDefaultSchedule: {rule!r} is no schedule rule",
                    hint="it needs a method apply(func, target, tunable) -> Schedule | None",
                )
        self.schedule_rules = rules

    def __repr__(self) -> str:
        return f"ApplyDefaultSchedule({', '.join(map(repr, self.schedule_rules))})"

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function scheduled by the first rule that fits."""
        sch = self.scheduled(func, Target.current() or Target("llvm"))
        if sch is None:
            return func
        done: PrimFunc = sch.mod[sch.func_working_on]
        ctx.note(f"{len(sch.trace.insts)} steps")
        return done.with_attr("tir.is_scheduled", True)  # type: ignore[return-value]

    def scheduled(self, func: PrimFunc, target: Target) -> Any:
        """The schedule of a function; None where no rule takes it."""
        if not self.schedule_rules:
            return (schedule_cpu if target.is_cpu else schedule_gpu)(func, target)
        for rule in self.schedule_rules:
            made = rule.apply(func, target, False)
            if made is not None:
                return made[0] if isinstance(made, list) else made
        return None
