"""MeasureCallback: what every callback is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.meta_schedule.part import Part


class MeasureCallback(Part):
    """A callback; `PyMeasureCallback` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.measure_callback"

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Hear what came of a batch.

        Args:
            task_scheduler: its `tasks_`, `database_` and `cost_model_` are those of the search.
            task_id: the number of the task.
            measure_candidates, builder_results, runner_results: of the batch, one by one.
        """
        raise NotImplementedError(f"{type(self).__name__}.apply")


PyMeasureCallback = MeasureCallback
