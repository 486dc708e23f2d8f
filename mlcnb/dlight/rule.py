"""Rules of default schedules: `rule(sch, survey, target) -> bool`, True if it took the function.

A rule that puts another program in the function's place gives that program's schedule.

first_that_fits(RULES, func, target)     the Schedule of the first rule that takes it
choice(RULES, func, target)              the same with its rule, and why those before it did not

    return no("a side of 12 rows")       a rule that does not take a function says why
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.survey import Survey
from mlcnb.target import Target
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import For, ForKind

Rule = Callable[[Schedule, Survey, Target], Schedule | bool]
_said: ContextVar[str] = ContextVar("why a rule does not apply", default="")


@dataclass(frozen=True)
class Passed:
    """A rule that did not take a function, and why."""

    rule: str
    why: str


@dataclass(frozen=True)
class Choice:
    """What became of a function.

    Attributes:
        rule: the name of the one that took it; "" where none did.
        schedule: what it made; None where none did.
        passed: those before it.
    """

    rule: str = ""
    schedule: Schedule | None = None
    passed: tuple[Passed, ...] = ()


def no(why: str) -> bool:
    """What a rule gives for a function that it does not take: False, with why for who asks."""
    _said.set(why)
    return False


def first_that_fits(rules: Sequence[Rule], func: PrimFunc, target: Target) -> Schedule | None:
    """The schedule of the first rule that takes a function; None where none does.

    A rule whose steps cannot be proved legal here leaves it to the next one, which is more general.
    """
    return choice(rules, func, target).schedule


def choice(rules: Sequence[Rule], func: PrimFunc, target: Target) -> Choice:
    """As `first_that_fits`, with the name of the rule and what those before it said."""
    fresh = Schedule(func)
    survey = Survey.of(fresh)
    passed: list[Passed] = []
    for rule in rules:
        sch = fresh.copy()
        token = _said.set("")
        try:
            made = rule(sch, survey, target)
            if made:
                other = made if isinstance(made, Schedule) else sch
                return Choice(rule.__name__, other, tuple(passed))
            why = _said.get() or _meant_for(rule)
        except ScheduleError as error:
            why = f"a step is refused: {error.message}"
        finally:
            _said.reset(token)
        passed.append(Passed(rule.__name__, why))
    return Choice(passed=tuple(passed))


def _meant_for(rule: Rule) -> str:
    """What a rule says of itself, where it does not say why it leaves a function."""
    first = " ".join((rule.__doc__ or "").split(". ")[0].split()).rstrip(".")
    return f"it does not fit: {first[:1].lower()}{first[1:]}" if first else "it does not fit"


def is_scheduled(func: PrimFunc) -> bool:
    """True if somebody has chosen how its loops run."""
    if func.attrs.get("tir.is_scheduled"):
        return True
    loops = (n for n in statements(func.body) if isinstance(n, For))
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
