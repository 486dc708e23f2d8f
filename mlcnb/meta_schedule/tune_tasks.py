"""tune_tasks: TVM's loop over tasks, of parts that can be chosen one by one.

    database = ms.tune_tasks(tasks=[ctx], task_weights=[1.0], work_dir="tuned",
                             max_trials_global=64)

`mlc.tune` is the other search here, which begins at the default schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.meta_schedule.builder import Builder
from mlcnb.meta_schedule.child import end_all
from mlcnb.meta_schedule.cost_model import CostModel
from mlcnb.meta_schedule.database import Database, JSONDatabase, MemoryDatabase
from mlcnb.meta_schedule.measure_callback import (
    AddToDatabase,
    MeasureCallback,
    RemoveBuildArtifact,
    UpdateCostModel,
)
from mlcnb.meta_schedule.runner import Runner
from mlcnb.meta_schedule.task_scheduler import TaskScheduler
from mlcnb.meta_schedule.tune_context import TuneContext

#: names of TVM's cost models and what stands here for them
_MODELS = {"xgb": "ridge", "mlp": "ridge", "lgbm": "lightgbm"}


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str | Path,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Database | str = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    module_equality: str = "structural",
    post_optimization: bool = False,
) -> Database:
    """Search schedules of several programs by TVM's loop.

    Args:
        tasks: contexts, each with a space and a strategy, of known shapes.
        task_weights: how often each is called.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each task at most.
        num_trials_per_iter: of a batch.
        builder, runner, cost_model, task_scheduler: objects, or names of them; "xgb" is the ridge
            regression of this package.
        database: "json" (in `work_dir`), "memory", or one of your own.
        measure_callbacks: "default" (keep, learn, clean up), or a list.
        module_equality: "structural".
        post_optimization: taken for TVM's callers.

    Raises:
        MLCError: there is no part of a name; lists of another length; no tasks.
    """
    if not tasks or len(tasks) != len(task_weights):
        raise MLCError(f"tune_tasks: {len(tasks)} tasks and {len(task_weights)} weights")
    keep = kept_in(database, work_dir, module_equality)
    callbacks = (
        [AddToDatabase(), UpdateCostModel(), RemoveBuildArtifact()]
        if measure_callbacks == "default"
        else [MeasureCallback.create(x) for x in measure_callbacks]
    )
    model = None if cost_model in (None, "none") else _model(cost_model)
    try:
        TaskScheduler.create(task_scheduler).tune(
            tasks,
            task_weights,
            max_trials_global,
            max_trials_global if max_trials_per_task is None else max_trials_per_task,
            num_trials_per_iter,
            Builder.create(builder),
            Runner.create(runner),
            callbacks,
            keep,
            model,
        )
    finally:
        end_all()
    return keep


def _model(asked: Any) -> CostModel:
    wanted = _MODELS.get(asked, asked) if isinstance(asked, str) else asked
    return CostModel.create(wanted)  # type: ignore[no-any-return]


def kept_in(
    database: Database | str, work_dir: str | Path, module_equality: str = "structural"
) -> Database:
    """The database that is meant: one's own, "memory", or "json" in a folder.

    Raises:
        MLCError: another name.
    """
    if isinstance(database, Database):
        return database
    if database == "memory":
        return MemoryDatabase(module_equality)
    if database != "json":
        raise MLCError(f"no database {database!r}", hint='"json", "memory", or an object')
    return JSONDatabase(work_dir=work_dir, module_equality=module_equality)
