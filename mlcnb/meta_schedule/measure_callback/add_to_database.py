"""AddToDatabase: what ran becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.meta_schedule.database import TuningRecord
from mlcnb.meta_schedule.measure_callback.callback import MeasureCallback


class AddToDatabase(MeasureCallback):
    """A record of each candidate that was timed."""

    kind = "add-to-database"

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Keep them in the database of the search."""
        database = task_scheduler.database_
        if database is None:
            return
        context = task_scheduler.tasks_[task_id].ctx
        kept = database.commit_workload(context.mod)
        for one, result in zip(measure_candidates, runner_results, strict=True):
            if result.run_secs:
                record = TuningRecord(one.sch.trace, kept, result.run_secs, context.target)
                database.commit_tuning_record(record)
