"""What a search says of itself, for its views: best so far, decisions, races, lines.

    best_so_far(t)      [(second, ratio, trial)]      each trial that was faster than all before it
    tree(t)             rule -> decision -> option    tries, best ratio, what was rejected and why
    ladder(t)           each race: who ran, what was measured, 95 % of it once it is known
    levels(t)           [(name, ratio)]               the default, peers, the roofline
    fastest(t, ratio)   seconds                       one call of the best, beside the default's

`t` is a search while it goes on, or what it found.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mlcnb.meta_schedule.found import interval
from mlcnb.meta_schedule.space import RULE
from mlcnb.tir.schedule.offers.cell_code import cell_code

#: choices that say where a function of the user drew from, and not what it drew
_DRAWN = ("function", "draw")


@dataclass
class Option:
    """One way that a decision went.

    Attributes:
        label: of the way.
        tried: trials that went it.
        best: the least ratio of one; None: none was timed.
        rejected: reason -> how often.
    """

    label: str
    tried: int = 0
    best: float | None = None
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, ratio: float | None, reason: str) -> None:
        """A trial, or choices that led to none."""
        self.tried += 1
        if reason:
            self.rejected[reason] += 1
        elif ratio is not None:
            self.best = ratio if self.best is None else min(self.best, ratio)


@dataclass
class Branch(Option):
    """A rule (or a function of the user), and the decisions that it asks for."""

    decisions: dict[str, dict[str, Option]] = field(default_factory=dict)

    def option(self, name: str, label: str) -> Option:
        """The option of a decision."""
        return self.decisions.setdefault(name, {}).setdefault(label, Option(label))


@dataclass(frozen=True)
class Rung:
    """One race: (trial, ratio, 95 % of all its last races up to here, or None)."""

    is_last: bool
    runs: list[tuple[int, float, tuple[float, float] | None]]


def best_so_far(t: Any) -> list[tuple[float, float, int]]:
    """(second, ratio, number) of the default, and of each trial faster than all before it."""
    found = [(0.0, 1.0, 0)]
    for trial in sorted(timed(t), key=lambda x: x.at):
        if trial.ratio < found[-1][1]:
            found.append((trial.at, trial.ratio, trial.number))
    return found


def timed(t: Any) -> list[Any]:
    """The trials that were timed, without the default."""
    return [x for x in t.trials if x.ratio is not None and x.number]


def likeliest(t: Any) -> Any:
    """The best trial: as found, or so far."""
    found = getattr(t, "best", None)
    return found or min(timed(t), key=lambda x: x.ratio, default=t.trials[0])


def levels(t: Any) -> list[tuple[str, float]]:
    """(name, ratio to the default) of what is drawn as a line."""
    default = t.trials[0].seconds if t.trials else None
    beside = [(name, s / default) for name, s in t.levels.items()] if default else []
    return [("default", 1.0), *beside]


def fastest(t: Any, ratio: float) -> float:
    """Seconds of one call of the best, by its ratio to the default: these two ran in turns, where
    the seconds of one race are of another moment of a clock that changes.
    """
    return float(t.trials[0].seconds * ratio)


def tree(t: Any) -> list[Branch]:
    """The decisions of all that was tried, the best branch first."""
    branches: dict[str, Branch] = {}
    own = t.trials[0].candidate.decisions.get(RULE, "as given") if t.trials else "as given"
    tried = [(x.candidate.choices, x.candidate.decisions, x.ratio, x.reason) for x in t.trials]
    tried += [(choices, choices, None, why) for choices, why in t.refused]
    for choices, decisions, ratio, reason in tried:
        name = decisions.get(RULE) or choices.get(RULE) or choices.get("function") or own
        branch = branches.setdefault(name, Branch(name))
        branch.add(ratio, reason)
        for key, label in decisions.items():
            if key != RULE and key not in _DRAWN:
                branch.option(key, label).add(ratio, reason)
    return sorted(branches.values(), key=_order)


def _order(option: Option) -> tuple[float, str]:
    return (float("inf") if option.best is None else option.best, option.label)


def options(branch: Branch) -> list[tuple[str, list[Option]]]:
    """The decisions of a branch that went several ways, those that matter most first; the best
    option of each first."""
    several = ((name, of) for name, of in branch.decisions.items() if len(of) > 1)
    found = [(name, sorted(of.values(), key=_order)) for name, of in several]
    return sorted(found, key=lambda pair: (-_spread(pair[1]), pair[0]))


def _spread(of: list[Option]) -> float:
    """How far apart the options of a decision are."""
    known = [x.best for x in of if x.best is not None]
    return max(known) / min(known) if known else 0.0


def ladder(t: Any) -> list[Rung]:
    """The races in order; of the last ones all that each contestant has run counts."""
    so_far: dict[int, list[float]] = {}
    rungs = []
    for race in t.rounds:
        runs: list[tuple[int, float, tuple[float, float] | None]] = []
        for number, ratio in race.ratios.items():
            if not race.is_last:
                runs.append((number, ratio, None))
                continue
            known = so_far.setdefault(number, [])
            known.append(ratio)
            bounds = interval(known) if len(known) > 2 else None
            runs.append((number, statistics.median(known), bounds))
        rungs.append(Rung(race.is_last, sorted(runs, key=lambda run: run[1])))
    return rungs


def written(trial: Any) -> str:
    """The schedule of a trial as a person would write it."""
    return cell_code(trial.candidate.sch)
