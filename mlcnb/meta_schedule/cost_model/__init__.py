"""Cost models: which candidates are worth measuring."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.means import within_means
from mlcnb.machine.prediction import body_cycles
from mlcnb.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature
from mlcnb.meta_schedule.part import Part, found

#: cycles without a wait for memory, by the fewest among those that are compared: more are too many
HOPELESS = 2.0


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


class RandomModel(CostModel):
    """A score by lot: learns nothing.

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


class RidgeModel(CostModel):
    """Ridge regression on the features of stores, the default.

        score of a program = sum of the scores of its stores      label: best time / time

    Features and their squares, standardised; the weights are drawn to zero (Hoerl and Kennedy,
    Technometrics 1970). Milliseconds for hundreds of measurements. Learns from all that was
    measured, of one task or several.

    Args:
        extractor: what is seen of a program.
        ridge: how strongly weights are drawn to zero.
        num_warmup_samples: below so many measurements scores are what the machine's model predicts.
    """

    kind = "ridge"
    extractor: FeatureExtractor | None = None
    ridge: float = 1.0
    num_warmup_samples: int = 8

    def __post_init__(self) -> None:
        self.extractor = self.extractor or PerStoreFeature()
        self._rows: list[np.ndarray] = []
        self._seconds: list[float] = []
        self._tasks: list[str] = []
        self.weights: np.ndarray | None = None

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn; what failed is left out."""
        rows = self._seen(context, candidates)
        for row, result in zip(rows, results, strict=True):
            taken = seconds_of(result)
            if taken is not None:
                self._rows.append(row)
                self._seconds.append(taken)
                self._tasks.append(context.workload.meaning if context.workload else "")
        if len(self._rows) >= self.num_warmup_samples:
            self._fit()

    def predict(self, context: Any, candidates: Sequence[Any]) -> np.ndarray:
        """Predicted best time / time, float64 of shape (n,).

        What would be too slow if nothing waited for memory is not looked at any closer.
        """
        if not candidates:
            return np.zeros(0)
        at_best = np.log2([_at_best(context, x) for x in candidates])
        beyond = at_best - at_best.min()
        near = [n for n, more in enumerate(beyond) if more <= math.log2(HOPELESS)]
        x = np.stack(self._seen(context, [candidates[n] for n in near]))
        # before there is enough to learn from: the cycles that the machine's model predicts
        known = -x[:, 0] if self.weights is None else self._expanded(x) @ self.weights
        scores = (0.0 if self.weights is None else self._middle) + known.min() - beyond
        scores[near] = known + (0.0 if self.weights is None else self._middle)
        return np.asarray(scores)

    def save(self, path: str) -> None:
        """The measurements, as JSON: what is learned follows from them."""
        told = {
            "rows": [r.tolist() for r in self._rows],
            "seconds": self._seconds,
            "tasks": self._tasks,
        }
        Path(path).write_text(json.dumps(told))

    def load(self, path: str) -> None:
        """The measurements that `save` wrote.

        Raises:
            ModelError: it is something else.
        """
        try:
            with within_means(path, ModelError):
                told = json.loads(Path(path).read_text())
            self._rows = [np.array(r, "float64") for r in told["rows"]]
            self._seconds = [float(x) for x in told["seconds"]]
            self._tasks = [str(x) for x in told["tasks"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: no saved RidgeModel: {error}") from error
        if len(self._rows) >= self.num_warmup_samples:
            self._fit()

    def _seen(self, context: Any, candidates: Sequence[Any]) -> list[np.ndarray]:
        """One row for each program: the sums over its stores."""
        assert self.extractor is not None
        return [x.sum(axis=0) for x in self.extractor.extract_from(context, candidates)]

    def _fit(self) -> None:
        x = np.stack(self._rows)
        self._mean, self._scale = x.mean(axis=0), x.std(axis=0)
        self._scale[self._scale < 1e-9] = np.inf
        y = self._labels()
        self._middle = float(y.mean())
        full = self._expanded(x)
        left = full.T @ full + self.ridge * np.eye(full.shape[1])
        self.weights = np.linalg.solve(left, full.T @ (y - self._middle))

    def _labels(self) -> np.ndarray:
        """Best time of the task / time, of each measurement."""
        best: dict[str, float] = {}
        for task, taken in zip(self._tasks, self._seconds, strict=True):
            best[task] = min(taken, best.get(task, taken))
        return np.array([best[t] / s for t, s in zip(self._tasks, self._seconds, strict=True)])

    def _expanded(self, x: np.ndarray) -> np.ndarray:
        """Features and their squares, standardised."""
        z = np.clip((x - self._mean) / self._scale, -4, 4)
        return np.concatenate([z, z * z], axis=1)


def _at_best(context: Any, candidate: Any) -> float:
    """Cycles of a candidate where nothing waits for memory."""
    sch = candidate.sch
    return 1 + body_cycles(sch.mod[sch.func_working_on], context.target)


class LGBMModel(RidgeModel):
    """Boosted trees on the same features, where LightGBM is installed: as `RidgeModel`, better from
    some hundred measurements on.

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
        options = {"objective": "regression", "num_threads": 1, "seed": 0, "verbose": -1}
        data = lightgbm.Dataset(np.stack(self._rows), label=self._labels())
        self._trees = lightgbm.train(options, data, self.rounds)


__all__ = ["CostModel", "PyCostModel"]
__getattr__ = found(globals())
