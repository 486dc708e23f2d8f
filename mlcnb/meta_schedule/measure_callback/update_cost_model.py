"""UpdateCostModel: the cost model learns from what ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.meta_schedule.measure_callback.callback import MeasureCallback


class UpdateCostModel(MeasureCallback):
    """All candidates that could be built."""

    kind = "update-cost-model"

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Tell it."""
        if task_scheduler.cost_model_ is not None:
            context = task_scheduler.tasks_[task_id].ctx
            task_scheduler.cost_model_.update(context, measure_candidates, runner_results)
