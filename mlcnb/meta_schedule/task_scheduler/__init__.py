"""Task schedulers: which program is tuned next."""

from __future__ import annotations

from mlcnb.meta_schedule.part import found
from mlcnb.meta_schedule.task_scheduler.scheduler import PyTaskScheduler, TaskRecord, TaskScheduler

__all__ = ["PyTaskScheduler", "TaskRecord", "TaskScheduler"]
__getattr__ = found(globals())
