"""Rules of default schedules: `rule(sch, survey, target) -> bool`, True if it took the function.

first_that_fits(RULES, func, target)     the Schedule of the first rule that takes it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.dlight.survey import Survey
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import For, ForKind

Rule = Callable[[Schedule, Survey, Target], bool]


def first_that_fits(rules: Sequence[Rule], func: PrimFunc, target: Target) -> Schedule | None:
    """The schedule of the first rule that takes a function; None where none does.

    A rule whose steps cannot be proved legal here leaves it to the next one, which is more general.
    """
    fresh = Schedule(func)
    survey = Survey.of(fresh)
    for rule in rules:
        sch = fresh.copy()
        try:
            if rule(sch, survey, target):
                return sch
        except ScheduleError:
            continue
    return None


def is_scheduled(func: PrimFunc) -> bool:
    """True if somebody has chosen how its loops run."""
    if func.attrs.get("tir.is_scheduled"):
        return True
    loops = (n for n in walk(func.body) if isinstance(n, For))
    return any(n.kind is not ForKind.SERIAL or n.annotations for n in loops)


class ScheduleRule:
    """Rules as `ApplyDefaultSchedule` takes them, by TVM's name: `dl.gpu.Fallback()`."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __call__(self) -> ScheduleRule:
        """The rule itself: it has no options."""
        return self

    def __repr__(self) -> str:
        return f"{self.rules[0].__name__}()"

    def apply(self, func: PrimFunc, target: Target, tunable: bool = False) -> Schedule | None:
        """The schedule of a function that nobody has scheduled; None where the rule does not fit.

        A step that is refused means that it does not fit.
        """
        return None if is_scheduled(func) else first_that_fits(self.rules, func, target)
