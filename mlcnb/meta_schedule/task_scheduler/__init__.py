"""Task schedulers: which program is tuned next; each file here is one."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from mlcnb.core.lazy import missing
from mlcnb.meta_schedule.task_scheduler.scheduler import PyTaskScheduler, TaskRecord, TaskScheduler

for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    globals().update({k: v for k, v in vars(_module).items() if getattr(v, "kind", "")})

__all__ = ["PyTaskScheduler", "TaskRecord", "TaskScheduler"]
__all__ += sorted(k for k, v in globals().items() if getattr(v, "kind", ""))


def __getattr__(name: str) -> Any:
    raise AttributeError(missing(f"module {__name__!r}", name, __all__))
