"""Spaces: the schedules among which a search chooses.

DefaultSpace(func, target)       the rules of the default schedules, every decision another way
FunctionSpace(func, functions)   Schedule -> Schedule with `sample_…`, every draw another way

space.first()                    the candidate to be compared with: the default
space.make(choices)              a Candidate, or the reason why there is none
space.around(candidate)          choices that differ from a candidate's in one place
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.dlight.cpu import RULES
from mlcnb.dlight.decide import Decisions, Point
from mlcnb.dlight.survey import Survey
from mlcnb.ir.json import save_json
from mlcnb.ir.module import IRModule
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

#: name of the decision which rule of all takes the function
RULE = "rule"
#: what another rule than the first that fits is reckoned to cost
OTHER_RULE = 1.5

#: how strongly terms are drawn to zero: what was seen once is not believed whole
RIDGE = 1.0
#: the term that comes from the rule's own reckoning, and its weight before anything was measured
RECKONED, TRUST = "reckoned", 0.5


Choices = Mapping[str, str]


@dataclass
class Candidate:
    """A schedule that may be compiled.

    Attributes:
        choices: what was decided otherwise than by default.
        points: all decisions, as they were taken.
        sch: the schedule.
        cost: what the rule's own reckoning makes of it, by the cheapest.
        text: the program as JSON: equal texts are one program.
    """

    choices: dict[str, str]
    points: tuple[Point, ...]
    sch: Schedule
    cost: float
    text: str = field(repr=False)

    @property
    def decisions(self) -> dict[str, str]:
        """Name -> label of every decision."""
        return {p.name: p.label for p in self.points}


class DefaultSpace:
    """The default rules with their decisions made otherwise.

    Args:
        func: a loop function that nobody has scheduled.
        target: what it is scheduled for.
        name: of the function in the module that is scheduled.

    Raises:
        ScheduleError: no rule takes the function.
    """

    def __init__(self, func: PrimFunc, target: Target, name: str = "main") -> None:
        self.target = target
        self._fresh = _schedule(func, name)
        self._survey = Survey.of(self._fresh)
        self._rules = {rule.__name__: rule for rule in RULES}
        self._own: str | None = None
        self._fits = (
            x for x in (self._apply(name, {}) for name in self._rules) if isinstance(x, Candidate)
        )
        self._first = next(self._fits, None)
        if self._first is None:
            raise ScheduleError(
                "no default rule takes this function",
                hint="is it scheduled already? tune(func, space=…) takes functions of your own",
            )
        self._own = self._first.decisions[RULE]

    @cached_property
    def _others(self) -> tuple[str, ...]:
        """The rules that take the function too, after the default one."""
        return tuple(x.decisions[RULE] for x in self._fits)

    def first(self) -> Candidate:
        """The default schedule."""
        assert self._first is not None
        return self._first

    def make(self, choices: Choices) -> Candidate | str:
        """The schedule that these choices lead to, or why there is none."""
        assert self._own is not None
        wanted = {name: label for name, label in choices.items() if name != RULE}
        return self._apply(choices.get(RULE, self._own), wanted)

    def around(self, candidate: Candidate) -> Iterator[tuple[dict[str, str], float]]:
        """(choices, reckoned cost) of those that differ in one decision.

        Another rule asks other things, so that nothing else goes with it.
        """
        if not candidate.choices:
            yield from (({RULE: name}, OTHER_RULE) for name in self._others)
        rest = {p.name: p for p in candidate.points if p.name != RULE}
        for name, point in rest.items():
            for number, label in enumerate(point.options):
                if number != point.taken:
                    choices = {**candidate.choices, name: label}
                    if number == point.default:
                        del choices[name]
                    cost = candidate.cost * point.costs[number] / point.costs[point.taken]
                    yield choices, cost

    def _apply(self, name: str, wanted: dict[str, str]) -> Candidate | str:
        if name not in self._rules:
            return f"there is no rule {name}"
        sch = self._fresh.copy()
        try:
            with Decisions(wanted) as made:
                if not self._rules[name](sch, self._survey, self.target):
                    return f"{name} does not take it so"
        except ScheduleError as error:
            return error.message
        except MLCError as error:
            return f"{name}: {error.message}"
        names = (name, *(n for n in self._rules if n != name))
        points = (Point(RULE, names, (1.0,) * len(names), 0, 0), *made.points)
        choices = {p.name: p.label for p in made.points if p.taken != p.default}
        cost = math.prod(p.costs[p.taken] for p in made.points)
        if self._own not in (None, name):
            choices, cost = {RULE: name, **choices}, cost * OTHER_RULE
        return Candidate(choices, points, sch, cost, save_json(sch.mod))


class FunctionSpace:
    """What functions of the user make of a loop function: every draw of theirs is a decision.

    Args:
        func: the loop function.
        functions: Schedule -> Schedule, list of schedules, or None (the one that was given); what
            they draw (`sample_perfect_tile`, `sample_categorical`, …) is drawn by the search.
        name: of the function in the module that is scheduled.
    """

    def __init__(
        self, func: PrimFunc, functions: Sequence[Callable[[Schedule], Any]], name: str = "main"
    ) -> None:
        self.func, self.name = func, name
        self._functions = {
            f"{getattr(f, '__name__', 'space')} {n}": f for n, f in enumerate(functions, 1)
        }
        self._seeds = 0

    def first(self) -> Candidate:
        """The function as it is written."""
        sch = _schedule(self.func, self.name)
        return Candidate({}, (), sch, 1.0, save_json(sch.mod))

    def make(self, choices: Choices) -> Candidate | str:
        """The function of that name, with that seed of its draws."""
        function, seed = self._functions[choices["function"]], int(choices["draw"])
        sch = _schedule(self.func, self.name, seed)
        try:
            made = function(sch)
        except MLCError as error:
            return error.message
        sch = made if isinstance(made, Schedule) else sch
        drawn = [i for i in sch.trace.insts if i.decision is not None]
        points = tuple(
            Point(f"{inst.kind.name} {n}", (str(inst.decision),), (1.0,), 0, 0)
            for n, inst in enumerate(drawn, 1)
        )
        return Candidate(dict(choices), points, sch, 1.0, save_json(sch.mod))

    def around(self, candidate: Candidate) -> Iterator[tuple[dict[str, str], float]]:
        """Some more draws of every function."""
        for _ in range(16):
            self._seeds += 1
            for name in self._functions:
                yield {"function": name, "draw": str(self._seeds)}, 1.0


def _schedule(func: PrimFunc, name: str, seed: int | None = None) -> Schedule:
    sch = Schedule(IRModule.make({name: func}), seed=seed)
    sch.work_on(name)
    return sch


class DecisionModel:
    """What each decision is worth, learned from what was measured.

        log(time / time of the default) = sum of a term for each decision that was taken
                                          + slope * log(what the rule reckoned)

    Ridge regression (Hoerl and Kennedy, Technometrics 1970): some milliseconds for hundreds of
    measurements, and terms that a reader can look at. Before anything was measured only the rule's
    own reckoning counts.
    """

    def __init__(self) -> None:
        self.weights: dict[str, float] = {RECKONED: TRUST}

    def fit(self, measured: Sequence[tuple[Candidate, float]]) -> None:
        """Learn from candidates and their ratios to the default's time."""
        rows = [self.features(candidate) for candidate, _ in measured]
        names = sorted({name for row in rows for name in row})
        x = np.array([[row.get(name, 0.0) for name in names] for row in rows])
        y = np.array([math.log(ratio) for _, ratio in measured])
        prior = np.array([TRUST if name == RECKONED else 0.0 for name in names])
        left = x.T @ x + RIDGE * np.eye(len(names))
        found = prior + np.linalg.solve(left, x.T @ (y - x @ prior))
        self.weights = dict(zip(names, map(float, found), strict=True))

    def features(self, candidate: Candidate) -> dict[str, float]:
        """What the model sees: decisions that are not the default's, and the reckoned cost."""
        seen = {f"{p.name} {p.label}": 1.0 for p in candidate.points if p.taken != p.default}
        seen |= {f"{name} {label}": 1.0 for name, label in candidate.choices.items()}
        return {**seen, RECKONED: math.log(max(candidate.cost, 1e-9))}

    def terms(self, candidate: Candidate) -> dict[str, float]:
        """Feature -> its part of log(time / time of the default)."""
        return {
            name: self.weights.get(name, 0.0) * value
            for name, value in self.features(candidate).items()
        }

    def predict(self, candidate: Candidate) -> float:
        """The ratio to the default's time."""
        return math.exp(sum(self.terms(candidate).values()))

    def predict_choices(self, choices: dict[str, str], cost: float) -> float:
        """The same of choices that no schedule has been made of yet."""
        seen = sum(self.weights.get(f"{name} {label}", 0.0) for name, label in choices.items())
        return math.exp(seen + self.weights[RECKONED] * math.log(max(cost, 1e-9)))
