"""DefaultSearch: the search of `mlc.tune` as a strategy: decisions of the default rules.

The first candidate is the default schedule; then those that differ from the best so far in one
decision, the cheapest by what was learned first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.meta_schedule.search_strategy.strategy import MeasureCandidate, SearchStrategy, args_of
from mlcnb.meta_schedule.space import Candidate, DecisionModel, DefaultSpace


class DefaultSearch(SearchStrategy):
    """The decisions that the default rules leave open; the design space is not looked at.

    Args:
        by_lot: the part of a batch that is drawn by lot.
    """

    kind = "default-rules"
    by_lot: float = 0.125

    def pre_tuning(self, *args: Any, **options: Any) -> None:
        """Begin at the default schedule."""
        super().pre_tuning(*args, **options)
        work = self.context.workload
        self.space = DefaultSpace(work.func, self.context.target, work.entry)
        self.model = DecisionModel()
        self.measured: list[tuple[Candidate, float]] = []
        self.made: dict[str, Candidate] = {}
        self.waiting: list[tuple[dict[str, str], float]] = [({}, 1.0)]
        self.known = {"[]"}

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """The default first, then what is predicted to be fast."""
        found: list[MeasureCandidate] = []
        if not self.made:
            self._look_around(self.space.first())
        while self.waiting and len(found) < wanted:
            at = 0
            if self.context.rng.random() < self.by_lot and self.made:
                at = int(self.context.rng.integers(len(self.waiting)))
            elif self.made:
                at = min(range(len(self.waiting)), key=self._seems)
            made = self.space.make(self.waiting.pop(at)[0])
            if isinstance(made, str):
                self._gives_up(made)
                continue
            one = MeasureCandidate(made.sch, args_of(made.sch))
            if self.is_new(one):
                self.made[one.text] = made
                found.append(one)
        return found

    def notify_runner_results(
        self, measure_candidates: list[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Learn from the seconds of each, by those of the first."""
        for one, result in zip(measure_candidates, results, strict=True):
            if result.run_secs:
                mean = sum(result.run_secs) / len(result.run_secs)
                self.measured.append((self.made[one.text], mean))
        if not self.measured:
            return
        first = self.measured[0][1]
        self.model.fit([(c, s / first) for c, s in self.measured])
        self._look_around(min(self.measured, key=lambda pair: pair[1])[0])

    def _look_around(self, candidate: Candidate) -> None:
        for choices, cost in self.space.around(candidate):
            key = str(sorted(choices.items()))
            if key not in self.known:
                self.known.add(key)
                self.waiting.append((choices, cost))

    def _seems(self, at: int) -> float:
        choices, cost = self.waiting[at]
        return self.model.predict_choices(choices, cost)
