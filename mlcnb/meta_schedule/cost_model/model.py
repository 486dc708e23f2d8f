"""CostModel: what every model is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.meta_schedule.part import Part


class CostModel(Part):
    """A model; `PyCostModel` is its name for those of one's own. Higher scores are faster."""

    folder = "mlcnb.meta_schedule.cost_model"

    def load(self, path: str) -> None:
        """Read what `save` wrote."""

    def save(self, path: str) -> None:
        """Write what was learned."""

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn from measured candidates.

        Args:
            context: of the candidates.
            candidates: what was measured.
            results: `run_secs` of each, or None where it failed.
        """

    def predict(self, context: Any, candidates: Sequence[Any]) -> np.ndarray:
        """A score for each candidate, float64 of shape (n,): higher is faster."""
        raise NotImplementedError(f"{type(self).__name__}.predict")


PyCostModel = CostModel


def seconds_of(result: Any) -> float | None:
    """The mean of the runs of a result; None where there were none."""
    runs = result.run_secs
    return float(np.mean([float(x) for x in runs])) if runs else None
