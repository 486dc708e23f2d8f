"""Schedules that are searched and measured: `tune`, records, databases, their use in `compile`.

db = mlc.meta_schedule.JSONDatabase(work_dir="tuned")     or MemoryDatabase()
db.commit(sch, run_secs=[0.0012])                         what this schedule took
with db:
    ex = mlc.compile(mod)                                 its loops run as the best record says
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.meta_schedule"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.database.record": "TuningRecord Workload",
        f"{_HERE}.database.database": "Database MemoryDatabase OrderedUnionDatabase",
        f"{_HERE}.database.json_database": "JSONDatabase",
        f"{_HERE}.database.apply": "MetaScheduleApplyDatabase",
        f"{_HERE}.tune": "tune ModelTuning",
        f"{_HERE}.search": "Tuning Trial",
        f"{_HERE}.integration": "tune_tir compile_tir ExtractedTask",
        f"{_HERE}.space": "DefaultSpace FunctionSpace",
    },
    submodules=("database", "testing"),
    elsewhere={_HERE: "relax_integration=integration tir_integration=integration"},
)
