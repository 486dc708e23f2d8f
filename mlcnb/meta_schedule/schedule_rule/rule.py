"""ScheduleRule: what every rule is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.meta_schedule.part import Part
from mlcnb.tir.schedule import Schedule


class ScheduleRule(Part):
    """A rule; `PyScheduleRule` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.schedule_rule"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """What comes of a block of the schedule: one or more schedules, or `[sch]`."""
        raise NotImplementedError(f"{type(self).__name__}.apply")


PyScheduleRule = ScheduleRule


@dataclass(frozen=True)
class ReuseType:
    """Where operands or results are copied.

    Attributes:
        req: "no", "may" (with and without are tried) or "must".
        levels: after which tiles, counted from 1.
        scope: the memory of the copy.
    """

    req: str = "no"
    levels: Sequence[int] = ()
    scope: str = "global"


def tried(sch: Schedule, step: Any) -> Schedule | None:
    """A copy of the schedule with a step done; None where it is refused."""
    made = sch.copy()
    try:
        step(made)
    except ScheduleError:
        return None
    return made
