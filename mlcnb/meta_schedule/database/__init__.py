"""Records of schedules that were measured, where they are kept, and the pass that applies them."""

from mlcnb.meta_schedule.database.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
)
from mlcnb.meta_schedule.database.json_database import JSONDatabase
from mlcnb.meta_schedule.database.record import TuningRecord, Workload

__all__ = [
    "Database",
    "JSONDatabase",
    "MemoryDatabase",
    "OrderedUnionDatabase",
    "TuningRecord",
    "Workload",
]
