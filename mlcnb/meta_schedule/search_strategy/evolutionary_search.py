"""EvolutionarySearch: the best traces so far, mutated, ranked by the cost model, measured.

population   the best of the database, and random draws
generations  parents by score, each mutated or copied; the best that was not measured is kept
batch        those that the model likes, and some by lot

Each candidate is a trace that is played: 20 to 100 ms here, so that populations are smaller than
TVM's (512, four generations).
"""

from __future__ import annotations

import heapq

import numpy as np

from mlcnb.meta_schedule.search_strategy.strategy import MeasureCandidate, SearchStrategy
from mlcnb.tir.schedule.record.trace import Trace


class EvolutionarySearch(SearchStrategy):
    """Seeded by the context: with the same measurements the search is the same.

    Args:
        population_size: traces of a generation.
        init_measured_ratio: the part of the first one that comes from the database.
        init_min_unmeasured: random draws at least.
        max_fail_count: rounds of draws that give nothing new before it ends.
        genetic_num_iters: generations for a batch.
        genetic_mutate_prob: how likely a child is mutated rather than copied.
        genetic_max_fail_count: mutations that are tried for a child.
        eps_greedy: the part of a batch that is drawn by lot.
    """

    kind = "evolutionary"
    population_size: int = 16
    init_measured_ratio: float = 0.2
    init_min_unmeasured: int = 16
    max_fail_count: int = 5
    genetic_num_iters: int = 1
    genetic_mutate_prob: float = 0.85
    genetic_max_fail_count: int = 10
    eps_greedy: float = 0.05

    def proposed(self, wanted: int) -> list[MeasureCandidate]:
        """Candidates of the known shapes and dtypes; those of two batches differ."""
        most, fails = max(self.init_min_unmeasured, wanted), self.max_fail_count * 4
        first = [*self._measured(), *self.drawn(most, fails, set(self.programs))]
        if not first:
            return []
        best = self._evolved(first, wanted)
        by_lot = int(np.floor(wanted * self.eps_greedy + self.context.rng.random()))
        rest = [x for x in first if x.text not in {b.text for b in best}]
        order = self.context.rng.permutation(len(rest))
        picked = [*best[: wanted - by_lot], *(rest[n] for n in order)]
        return [x for x in picked if self.is_new(x)][:wanted]

    def _measured(self) -> list[MeasureCandidate]:
        """The best that the database has, played again."""
        count = int(self.population_size * self.init_measured_ratio)
        found = self.database and self.database.find_workload(self.context.mod)
        if not found or self.database is None:
            return []
        made = [self.played(r.trace) for r in self.database.get_top_k(found, count)]
        return [x for x in made if x is not None]

    def _evolved(self, first: list[MeasureCandidate], wanted: int) -> list[MeasureCandidate]:
        """The best unmeasured of all generations, the best first."""
        heap: dict[str, tuple[float, int, MeasureCandidate]] = {}
        now = first
        for generation in range(self.genetic_num_iters + 1):
            scores = self._scores(now)
            for score, one in zip(scores, now, strict=True):
                if one.text not in self.programs:
                    heap.setdefault(one.text, (float(score), -len(heap), one))
            if generation < self.genetic_num_iters:
                now = self._children(now, scores)
        return [x for _, _, x in heapq.nlargest(wanted, heap.values())]

    def _scores(self, candidates: list[MeasureCandidate]) -> np.ndarray:
        if self.cost_model is None:
            return np.asarray(self.context.rng.random(len(candidates)))
        return np.asarray(self.cost_model.predict(self.context, candidates), "float64")

    def _children(
        self, parents: list[MeasureCandidate], scores: np.ndarray
    ) -> list[MeasureCandidate]:
        """The next generation: parents are the more likely the better their score."""
        rng = self.context.rng
        weights = np.maximum(scores - scores.min(), 0) + 1e-3
        made: dict[str, MeasureCandidate] = {}
        for _ in range(self.population_size):
            parent = parents[int(rng.choice(len(parents), p=weights / weights.sum()))]
            child = self._mutated(parent) if rng.random() < self.genetic_mutate_prob else parent
            made.setdefault(child.text, child)
        return list(made.values())

    def _mutated(self, parent: MeasureCandidate) -> MeasureCandidate:
        """The candidate with one decision changed; itself where no change works."""
        probs = self.context.space_generator.mutator_probs
        kinds, weights = list(probs), np.array([*probs.values()], "float64")
        if not kinds:
            return parent
        trace: Trace = parent.sch.trace
        for _ in range(self.genetic_max_fail_count):
            mutator = kinds[int(self.context.rng.choice(len(kinds), p=weights / weights.sum()))]
            changed = mutator.apply(trace, self.context.rng)
            made = None if changed is None else self.played(changed)
            if made is not None:
                return made
        return parent
