"""Schedule rules: one step of making a space of schedules; each file here is a rule.

    rule.apply(sch, block) -> schedules      [sch] where it does not fit the block

They do what TVM's of the same names do, with the public primitives alone: what is open is a draw
(`sample_…`), so that a trace can be played again with other numbers.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from mlcnb.core.lazy import missing
from mlcnb.meta_schedule.schedule_rule.rule import PyScheduleRule, ReuseType, ScheduleRule

for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    globals().update({k: v for k, v in vars(_module).items() if getattr(v, "kind", "")})

__all__ = ["PyScheduleRule", "ReuseType", "ScheduleRule"]
__all__ += sorted(k for k, v in globals().items() if getattr(v, "kind", ""))


def __getattr__(name: str) -> Any:
    raise AttributeError(missing(f"module {__name__!r}", name, __all__))
