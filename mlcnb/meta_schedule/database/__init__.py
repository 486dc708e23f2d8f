"""Records of schedules that were measured, where they are kept, and the pass that applies them."""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.meta_schedule.database"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.database": "Database MemoryDatabase OrderedUnionDatabase",
        f"{_HERE}.json_database": "JSONDatabase",
        f"{_HERE}.record": "TuningRecord Workload",
    },
)
