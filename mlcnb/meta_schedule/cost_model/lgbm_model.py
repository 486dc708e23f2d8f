"""LGBMModel: boosted trees on the same features, where LightGBM is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.meta_schedule.cost_model.ridge_model import RidgeModel


class LGBMModel(RidgeModel):
    """As `RidgeModel`, with trees: better from some hundred measurements on.

    Args:
        extractor, ridge, num_warmup_samples: see `RidgeModel`.
        rounds: trees.

    Raises:
        MLCError: (when it learns) LightGBM is not installed.
    """

    kind = "lightgbm"
    num_warmup_samples: int = 100
    rounds: int = 100
    _trees: Any = None

    def predict(self, context: Any, candidates: Any) -> np.ndarray:
        """Predicted best time / time, float64 of shape (n,)."""
        if self._trees is None:
            return super().predict(context, candidates)
        return np.asarray(self._trees.predict(np.stack(self._seen(context, candidates))))

    def _fit(self) -> None:
        try:
            import lightgbm
        except ImportError as error:
            raise MLCError(
                "LGBMModel: LightGBM is not installed",
                hint='pip install lightgbm, or cost_model="ridge"',
            ) from error
        super()._fit()
        best: dict[str, float] = {}
        for task, taken in zip(self._tasks, self._seconds, strict=True):
            best[task] = min(taken, best.get(task, taken))
        y = [best[t] / s for t, s in zip(self._tasks, self._seconds, strict=True)]
        options = {"objective": "regression", "num_threads": 1, "seed": 0, "verbose": -1}
        data = lightgbm.Dataset(np.stack(self._rows), label=np.array(y))
        self._trees = lightgbm.train(options, data, self.rounds)
