"""Ready schedules: one file for each kernel family, written with the public Schedule alone.

`schedule_cpu(func, target)` and `schedule_gpu` pick the first rule that fits; the trace of what it
did can be printed and replayed like anybody's. `ApplyDefaultSchedule` is the same as a pass.
`rule_report(mod, target)` says which rule took which function, and why those before it did not.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.dlight.cpu": "schedule_cpu",
        "mlcnb.dlight.gpu": "schedule_gpu",
        "mlcnb.dlight.rule": "ScheduleRule",
        "mlcnb.dlight.apply": "ApplyDefaultSchedule",
        "mlcnb.dlight.report": "RuleReport rule_report",
    },
    submodules=("cpu", "gpu"),
)
