"""DecisionModel: what each decision is worth, learned from what was measured.

    log(time / time of the default) = sum of a term for each decision that was taken
                                      + slope * log(what the rule reckoned)

Ridge regression (Hoerl and Kennedy, Technometrics 1970), in NumPy: some milliseconds for hundreds
of measurements, and terms that a reader can look at: `model.terms(candidate)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlcnb.meta_schedule.space import Candidate

#: how strongly terms are drawn to zero: what was seen once is not believed whole
RIDGE = 1.0
#: the term that comes from the rule's own reckoning, and its weight before anything was measured
RECKONED, TRUST = "reckoned", 0.5


class DecisionModel:
    """Terms of decisions; before anything was measured only the rule's own reckoning counts."""

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
