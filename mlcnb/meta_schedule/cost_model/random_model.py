"""RandomModel: a score by lot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.meta_schedule.cost_model.model import CostModel


class RandomModel(CostModel):
    """Learns nothing.

    Args:
        seed: of the scores.
    """

    kind = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def predict(self, context: Any, candidates: Sequence[Any]) -> np.ndarray:
        """Numbers in 0..1, float64 of shape (n,)."""
        return np.asarray(self._rng.random(len(candidates)))
