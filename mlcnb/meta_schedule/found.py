"""What a search tried and found: trials, races, the best.

found = mlc.tune(matmul)
found.best, found.ratio, found.interval      the winner, its time by the default's
found.trials, found.rounds, found.refused    what was tried, how it raced, what was no schedule
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcnb.core import display
from mlcnb.meta_schedule.database import Database, TuningRecord
from mlcnb.meta_schedule.space import Candidate, DecisionModel
from mlcnb.meta_schedule.tape import Tape

#: choices that led to no schedule, and why
Refused = tuple[dict[str, str], str]


@dataclass
class Trial:
    """A candidate that was tried.

    Attributes:
        number: 0 is the default.
        candidate: the choices and the schedule.
        predicted: ratio to the default's time, as the model said before.
        ratio: as measured, the median of the last race it was in; None where it was not timed.
        seconds: of one call.
        at: seconds since the search began.
        reason: why it was rejected, "" where it was timed.
    """

    number: int
    candidate: Candidate
    predicted: float
    ratio: float | None = None
    seconds: float | None = None
    at: float = 0.0
    reason: str = ""


@dataclass
class Round:
    """One race.

    Attributes:
        is_last: True for those of the best few at the end; the others are first tries.
        ratios: number of a trial -> its time by the default's, as this race says.
    """

    is_last: bool
    ratios: dict[int, float]


@dataclass(repr=False)
class Tuning(display.Shown):
    """What `tune` found for one loop function.

    Attributes:
        name: of the function.
        trials: all that were compiled, in order; the first is the default.
        best: the fastest; the default where none was surely faster.
        ratio: its time by the default's; 1.0 for the default.
        interval: 95 % of that ratio.
        refused: choices that led to no schedule, each with why.
        model: what it learned of the decisions.
        record: the best schedule, as a database keeps it.
        database: where it was kept.
        seconds: that the search took.
        stopped: True if somebody interrupted it: everything measured so far is here.
        tape: what it was told: see `replay_tuning`.
        rounds: the races, in order.
        levels: what its times stand beside -> seconds of one call: peers, the roofline.
    """

    name: str
    trials: list[Trial]
    best: Trial
    ratio: float
    interval: tuple[float, float]
    refused: list[Refused]
    model: DecisionModel
    record: TuningRecord
    database: Database
    seconds: float
    stopped: bool = False
    tape: Tape = field(default_factory=Tape)
    rounds: list[Round] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)

    @property
    def illegal(self) -> dict[str, str]:
        """Choices that led to no schedule, as text -> why."""
        return {shown(choices): why for choices, why in self.refused}

    def save(self, path: Any) -> None:
        """Write what the search was told, as JSON: `replay_tuning(path)` plays it again."""
        Path(path).write_text(json.dumps(self.tape.as_json()))

    @property
    def schedule(self) -> Any:
        """The best schedule: goes on like any other."""
        return self.record.schedule()

    @property
    def default(self) -> Trial:
        """The default schedule."""
        return self.trials[0]


def shown(choices: dict[str, str]) -> str:
    """Choices as text."""
    return ", ".join(f"{name}: {label}" for name, label in choices.items())


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % of the mean of ratios, from their logarithms, by Student's t (2.1 from 10 on)."""
    logs = [math.log(r) for r in ratios]
    if len(logs) < 2:
        return (0.0, math.inf)
    t = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31}.get(
        len(logs) - 1, 2.1
    )
    middle = statistics.fmean(logs)
    apart = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return (math.exp(middle - apart), math.exp(middle + apart))
