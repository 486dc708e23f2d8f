"""Measure callbacks: what is done with each batch of results.

A callback of one's own has `apply`, as TVM calls it; those that are ready are told a `Batch`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mlcnb.meta_schedule.database import TuningRecord
from mlcnb.meta_schedule.part import Part, found


class Batch(NamedTuple):
    """What came of the candidates of a batch, one by one: see `MeasureCallback.apply`."""

    task_scheduler: Any
    task_id: int
    candidates: Sequence[Any]
    built: Sequence[Any]
    ran: Sequence[Any]

    @property
    def context(self) -> Any:
        """The context of the task."""
        return self.task_scheduler.tasks_[self.task_id].ctx


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
        self.hear(
            Batch(task_scheduler, task_id, measure_candidates, builder_results, runner_results)
        )

    def hear(self, batch: Batch) -> None:
        """What `apply` does, with the batch as one."""
        raise NotImplementedError(f"{type(self).__name__}.apply")


PyMeasureCallback = MeasureCallback


class AddToDatabase(MeasureCallback):
    """What ran becomes a record: one of each candidate that was timed."""

    kind = "add-to-database"

    def hear(self, batch: Batch) -> None:
        """Keep them in the database of the search."""
        database, context = batch.task_scheduler.database_, batch.context
        if database is None:
            return
        kept = database.commit_workload(context.mod)
        for one, result in zip(batch.candidates, batch.ran, strict=True):
            if result.run_secs:
                record = TuningRecord(one.sch.trace, kept, result.run_secs, context.target)
                database.commit_tuning_record(record)


class RemoveBuildArtifact(MeasureCallback):
    """Files of candidates go when they have run: those that `LocalBuilder` made, with their
    folders; others' files stay.
    """

    kind = "remove-build-artifact"

    def hear(self, batch: Batch) -> None:
        """Remove them."""
        for one in batch.built:
            folder = Path(one.artifact_path).parent if one.artifact_path else None
            if folder is not None and folder.name.startswith("mlcnb-candidate-"):
                shutil.rmtree(folder, ignore_errors=True)


class UpdateCostModel(MeasureCallback):
    """The cost model learns from what ran: all candidates that could be built."""

    kind = "update-cost-model"

    def hear(self, batch: Batch) -> None:
        """Tell it."""
        model = batch.task_scheduler.cost_model_
        if model is not None:
            model.update(batch.context, batch.candidates, batch.ran)


__all__ = ["MeasureCallback", "PyMeasureCallback"]
__getattr__ = found(globals())
