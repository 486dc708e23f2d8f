"""GradientBased: the task with the most to gain has the next turn.

gain = weight x (alpha x what the last batches gained + (1 - alpha) x best / batches)
"""

from __future__ import annotations

import math

import numpy as np

from mlcnb.meta_schedule.task_scheduler.scheduler import TaskRecord, TaskScheduler


class GradientBased(TaskScheduler):
    """Each task once, then by gain; a task of which nothing ran counts as one with much to gain.

    Args:
        alpha: how much what was gained lately counts.
        window_size: batches that are "lately".
        seed: of the choice among equals; -1: 0.
    """

    kind = "gradient"
    alpha: float = 0.2
    window_size: int = 3
    seed: int = -1

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(max(self.seed, 0))

    def next_task_id(self) -> int:
        """The task with the largest gain; -1 where all are done."""
        open_ = [n for n, one in enumerate(self.tasks_) if not one.is_terminated]
        fresh = [n for n in open_ if not self.tasks_[n].best]
        if not open_ or fresh:
            return fresh[0] if fresh else -1
        gains = [self._gain(self.tasks_[n]) for n in open_]
        most = [n for n, gain in zip(open_, gains, strict=True) if gain == max(gains)]
        return int(self._rng.choice(most))

    def _gain(self, one: TaskRecord) -> float:
        count, last = len(one.best), one.best[-1]
        if math.isinf(last):
            return math.inf if count < self.window_size else 0.0
        before = one.best[max(0, count - 1 - self.window_size)]
        lately = 0.0 if math.isinf(before) else (before - last) / self.window_size
        return one.task_weight * (self.alpha * lately + (1 - self.alpha) * last / count)
