"""The search for one schedule: construct, draft, race, refine.

    construct    choices around the default, then around the best so far (`space`)
    draft        the cheapest by the rules' own reckoning, then by what was learned
    race         a batch is compiled on all cores, then timed in turns with the default, alone
    last race    the best few in turns with the default, until an interval excludes 1

What ends the search early is Ctrl-C: what was measured stands, and the last race is short.
"""

from __future__ import annotations

import base64
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir.json import save_json
from mlcnb.meta_schedule.child import do_job
from mlcnb.meta_schedule.database import Database, TuningRecord, Workload
from mlcnb.meta_schedule.found import Refused, Round, Trial, Tuning, interval
from mlcnb.meta_schedule.space import RULE, Candidate, DecisionModel, DefaultSpace, FunctionSpace
from mlcnb.meta_schedule.tape import Tape
from mlcnb.runtime.threads import default_num_threads, get_num_threads
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc

#: candidates that are compiled and timed together, and how many of them are drawn by lot
BATCH, BY_LOT = 8, 1
#: seconds of a race for each candidate in it, and of one in the last race
HEAT, FINAL = 0.03, 0.25
#: the part of the time for the last race, how many run in it, and how many rounds at least, which
#: are shorter where the time is
LAST, FINALISTS, ROUNDS = 0.25, 3, 5
#: what a try of a decision makes the next try of the same one seem to cost: others come before it
SEEN = 0.01
#: seconds after which compiling, and a race, are given up
COMPILE_TIMEOUT, RACE_TIMEOUT = 30.0, 30.0
#: candidates that wait, at most: the dearest are forgotten
WAITING = 4096


@dataclass
class _Waiting:
    """Choices that nothing has been made of yet: what differs, what it is predicted to cost."""

    name: str
    choices: dict[str, str]
    cost: float
    predicted: float


@dataclass
class Hint:
    """What made another kernel of one rule faster: it is tried first."""

    rule: str
    choices: dict[str, str]
    ratio: float


@dataclass
class Search:
    """One search while it goes on."""

    func: PrimFunc
    target: Target
    budget: float
    space: Any = None
    most: int | None = None
    seed: int = 0
    threads: int | None = None
    runner: Any = None
    args: Sequence[Any] | None = None
    on_trial: Callable[[Trial], Any] | None = None
    trials: list[Trial] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    tape: Tape = field(default_factory=Tape)
    stop: Event = field(default_factory=Event)
    listeners: list[Callable[[], Any]] = field(default_factory=list)
    hints: Sequence[Hint] = ()
    name: str = ""
    found: Tuning | None = None

    def run(self, workload: Workload, database: Database) -> Tuning:
        """Search, race, keep."""
        self.start, self.name = time.perf_counter(), workload.name
        self._head(workload)
        self.rng = np.random.default_rng(self.seed)
        self.model = DecisionModel()
        name = (database.find_workload(workload.mod) or workload).entry
        given = [self.space] if callable(self.space) else self.space
        self.points: Any = (
            FunctionSpace(self.func, given, name)
            if given
            else DefaultSpace(self.func, self.target, name)
        )
        self.programs: set[str] = set()
        self.waiting: list[_Waiting] = []
        self.known: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.described = None if self.args is None else [_described(a) for a in self.args]
        with executor_of(self.runner) as self.executor:
            first = Trial(0, self.points.first(), 1.0, ratio=1.0)
            self._first(first)
            try:
                while not self._is_over() and (batch := self._propose()):
                    self._heat(batch)
            except KeyboardInterrupt:  # what has been measured stands; one more ends the last race
                self._stopped()
            best, ratio, interval = self._last_race()
        where = self.target
        if where.mcpu == "host" and self.cpu is not None:  # records of other CPUs are told apart
            where = Target({**where.export(), "mcpu": self.cpu})
        kept = database.commit_workload(workload.mod)
        record = TuningRecord(best.candidate.sch.trace, kept, [best.seconds or 1.0], where)
        database.commit_tuning_record(record)
        self.found = Tuning(
            workload.name, self.trials, best, ratio, interval, self.refused, self.model, record,
            database, self._elapsed(), self.stopped, self.tape, self.rounds, self.levels,
        )  # fmt: skip
        self._moved()
        return self.found

    def _is_over(self) -> bool:
        """Time for the last race; a first batch is tried in any case."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        if self.most is not None and len(self.trials) > self.most:
            return True
        last = LAST if self._promising() else 0.0
        return len(self.trials) > 1 and self._elapsed() >= self.budget * (1 - last)

    def _promising(self) -> list[Trial]:
        """Trials that were faster than the default when they were tried, the fastest first."""
        faster = [
            t for t in self.trials[1:] if not t.reason and t.ratio is not None and t.ratio < 1
        ]
        return sorted(faster, key=lambda t: t.ratio or 1.0)

    def _elapsed(self) -> float:
        return self.tape.now(lambda: time.perf_counter() - self.start)

    def _head(self, workload: Workload) -> None:
        """Note what is searched, for who plays it again."""
        told = {
            "mod": workload.as_json()[0], "target": str(self.target), "budget": self.budget,
            "most": self.most, "seed": self.seed, "threads": self.threads or get_num_threads(),
            "checked": save_json(self.func), "hints": [asdict(h) for h in self.hints],
        }  # fmt: skip
        if not self.tape.is_playing:
            self.tape.head = told

    def _stopped(self) -> None:
        self.tape.note_stop()
        self.stopped = True

    def _first(self, first: Trial) -> None:
        """Time the default alone: without it there is nothing to be compared with."""
        self.trials.append(first)
        answer = self._ask(self._race([first], HEAT), RACE_TIMEOUT)
        if "error" in answer:
            raise MLCError(f"tune: the default schedule cannot be timed: {answer['error']}")
        first.seconds = statistics.median(answer["times"][0])
        self.cpu = answer.get("cpu")
        for hint in self.hints:
            if hint.rule == first.candidate.decisions.get(RULE):
                self._await(hint.choices, 1.0, "hint", hint.ratio)
        self._expand(first.candidate)
        self._said(first)

    def _expand(self, candidate: Candidate) -> None:
        """What lies around a candidate waits to be tried."""
        for choices, cost in self.points.around(candidate):
            changed = {*choices.items()} ^ {*candidate.choices.items()}
            predicted = self.model.predict_choices(choices, cost)
            self._await(choices, cost, min(changed)[0], predicted)
        if len(self.waiting) > WAITING:
            self.waiting = sorted(self.waiting, key=lambda w: w.predicted)[: WAITING // 2]

    def _await(self, choices: dict[str, str], cost: float, name: str, predicted: float) -> None:
        """Choices that were not met before wait to be tried."""
        key = str(sorted(choices.items()))
        if key not in self.known:
            self.known.add(key)
            self.waiting.append(_Waiting(name, choices, cost, predicted))

    def _propose(self) -> list[Trial]:
        """The next candidates: the best by the model, and some by lot."""
        batch: list[Trial] = []
        wanted = BATCH if self.most is None else min(BATCH, self.most + 1 - len(self.trials))
        while self.waiting and len(batch) < wanted:
            at = int(self.rng.integers(len(self.waiting)))
            if len(batch) < BATCH - BY_LOT:
                at = min(range(len(self.waiting)), key=self._seems)
            choices = self.waiting[at].choices
            self.seen[self.waiting.pop(at).name] += 1
            made = self.points.make(choices)
            if isinstance(made, str):
                self.refused.append((choices, made))
            elif made.text not in self.programs and made.text != self.trials[0].candidate.text:
                self.programs.add(made.text)
                number = len(self.trials) + len(batch)
                batch.append(Trial(number, made, self.model.predict(made)))
        return batch

    def _seems(self, at: int) -> float:
        """What waits there is predicted to cost; more, the more often its decision was tried."""
        waits = self.waiting[at]
        return waits.predicted * (1 + SEEN * self.seen[waits.name])

    def _heat(self, batch: list[Trial]) -> None:
        """Compile a batch, race it against the default, learn, and look around the best."""
        jobs = [{"do": "build", "mod": t.candidate.text, "target": str(self.target)} for t in batch]
        answers = self._ask_all(jobs, COMPILE_TIMEOUT)
        for trial, answer in zip(batch, answers, strict=True):
            trial.reason = answer.get("error", "")
            self.trials.append(trial)
        racing = [t for t in batch if not t.reason]
        self._raced(False, self._timed(racing, HEAT))
        for trial in batch:
            trial.at = self._elapsed()
            self._said(trial)
        measured = [(t.candidate, t.ratio) for t in self.trials if t.ratio is not None]
        self.model.fit(measured)
        for waits in self.waiting:
            waits.predicted = self.model.predict_choices(waits.choices, waits.cost)
        good = sorted((t for t in racing if t.ratio is not None), key=lambda t: t.ratio or 1.0)
        for trial in good[: BATCH // 2]:
            self._expand(trial.candidate)

    def _timed(self, racing: list[Trial], seconds: float) -> dict[int, float]:
        """Race trials against the default; their ratios by number."""
        if not racing:
            return {}
        answer = self._ask(self._race([self.trials[0], *racing], seconds), RACE_TIMEOUT)
        if "error" in answer:
            if len(racing) == 1:
                racing[0].reason, racing[0].ratio = answer["error"], None
                return {}
            halves = racing[: len(racing) // 2], racing[len(racing) // 2 :]
            return {k: v for half in halves for k, v in self._timed(half, seconds).items()}
        default, *others = (statistics.median(t) if t else None for t in answer["times"])
        assert default is not None
        found: dict[int, float] = {}
        for trial, taken, wrong in zip(racing, others, answer["wrong"][1:], strict=True):
            if wrong is not None or taken is None:
                trial.reason = f"computes something else: {wrong}"
                continue
            trial.seconds, trial.ratio = taken, taken / default
            found[trial.number] = taken / default
        return found

    def _last_race(self) -> tuple[Trial, float, tuple[float, float]]:
        """The best few against the default, until one is surely faster, or the time is up."""
        first = self.trials[0]
        left = self._promising()[:FINALISTS]
        seconds = min(FINAL, max(HEAT, self.budget * LAST / (ROUNDS * (FINALISTS + 1))))
        rounds: dict[int, list[float]] = {t.number: [] for t in left}
        end = self.budget if self.most is None and not self.stopped else 0.0
        while left and (self._elapsed() < end or min(map(len, rounds.values())) < ROUNDS):
            raced = self._timed(left, seconds)
            for number, ratio in raced.items():
                rounds[number].append(ratio)
            self._raced(True, raced)
            left = [t for t in left if not t.reason]
            rounds = {t.number: rounds[t.number] for t in left}
            if left and all(len(rounds[t.number]) >= ROUNDS for t in left):
                likely = min(left, key=lambda t: statistics.median(rounds[t.number]))
                low, high = interval(rounds[likely.number])
                if high < 1 or low > 1:
                    break
        for trial in left:
            trial.ratio = statistics.median(rounds[trial.number])
        best = min(left, key=lambda t: t.ratio or 1.0, default=first)
        if best is first:
            return first, 1.0, (1.0, 1.0)
        bounds = interval(rounds[best.number])
        if bounds[1] >= 1:
            return first, 1.0, (1.0, 1.0)
        return best, best.ratio or 1.0, bounds

    def _race(self, trials: Sequence[Trial], seconds: float) -> dict[str, Any]:
        return {
            "do": "race",
            "mods": [t.candidate.text for t in trials],
            "target": str(self.target),
            "threads": self.threads or get_num_threads(),
            "args": self.described,
            "seed": self.seed,
            "seconds": seconds * len(trials),
        }

    def _ask(self, job: dict[str, Any], timeout: float) -> dict[str, Any]:
        return self._ask_all([job], timeout)[0]

    def _ask_all(self, jobs: list[dict[str, Any]], timeout: float) -> list[dict[str, Any]]:
        def ask() -> list[dict[str, Any]]:
            futures = [self.executor.submit(do_job, job, timeout) for job in jobs]
            return [future.result() for future in futures]

        return self.tape.told(jobs, ask)

    def _raced(self, is_last: bool, ratios: dict[int, float]) -> None:
        self.rounds.append(Round(is_last, ratios))
        self._moved()

    def _moved(self) -> None:
        """Tell those who look on that there is more to see."""
        for listener in self.listeners:
            listener()

    def _said(self, trial: Trial) -> None:
        if self.on_trial is not None:
            self.on_trial(trial)
        self._moved()


def executor_of(runner: Any) -> Any:
    """What has `submit`, as a context: own threads end with it, others' stay."""
    if runner is None:
        return ThreadPoolExecutor(default_num_threads())
    if hasattr(runner, "get_executor"):  # a client of Dask; equal calls are not one call
        return nullcontext(runner.get_executor(pure=False))
    if not hasattr(runner, "submit"):
        raise MLCError(
            f"tune: {kind_of(runner)} runs nothing",
            hint="runner= takes a concurrent.futures.Executor, or a client of Dask",
        )
    return nullcontext(runner)


def _described(arg: Any) -> dict[str, Any]:
    """An argument as plain data: see `contest`."""
    if isinstance(arg, bool | int | float):
        return {"number": arg}
    array = np.ascontiguousarray(arg)
    data = base64.b64encode(array.tobytes()).decode()
    return {"bytes": data, "dtype": str(array.dtype), "shape": list(array.shape)}
