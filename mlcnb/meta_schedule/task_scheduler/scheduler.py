"""TaskScheduler: the loop of a search over one program or several; the orders that are ready.

for each turn:   a task -> its candidates -> built -> run -> callbacks
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.core.progress import progress_bar
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.json import save_json
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.builder import Builder, BuilderInput
from mlcnb.meta_schedule.database import Database
from mlcnb.meta_schedule.part import Part
from mlcnb.meta_schedule.profiler import Profiler
from mlcnb.meta_schedule.runner import Runner, RunnerInput, RunnerResult

_log = logging.getLogger(__name__)


@dataclass
class TaskRecord:
    """How far a task is.

    Attributes:
        ctx: its context.
        task_weight: how often it is called.
        is_terminated: nothing more is tried.
        best: seconds of the best after each batch; inf where nothing ran.
        trials: candidates that were tried.
        build_error_count, run_error_count: of those, and `reasons`: reason -> how often.
    """

    ctx: Any
    task_weight: float = 1.0
    is_terminated: bool = False
    best: list[float] = field(default_factory=list)
    trials: int = 0
    build_error_count: int = 0
    run_error_count: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def flop(self) -> float:
        """Floating-point operations of a run."""
        return float(self.ctx.workload.flops or 0)


class TaskScheduler(Part):
    """A scheduler; `PyTaskScheduler` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.task_scheduler"

    tasks_: list[TaskRecord]
    database_: Database | None = None
    cost_model_: Any = None
    measure_callbacks_: Sequence[Any] = ()

    def next_task_id(self) -> int:
        """The number of the task that has the next turn; -1: none has."""
        raise NotImplementedError(f"{type(self).__name__}.next_task_id")

    def tune(
        self,
        tasks: Sequence[Any],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int,
        num_trials_per_iter: int,
        builder: Builder,
        runner: Runner,
        measure_callbacks: Sequence[Any],
        database: Database | None,
        cost_model: Any,
    ) -> None:
        """Search until the trials are used up, all tasks are done, or Ctrl-C.

        Args:
            tasks: contexts with a space and a strategy.
            task_weights: how often each is called.
            max_trials_global, max_trials_per_task: candidates in all, and of one task.
            num_trials_per_iter: of a batch.
            builder, runner, measure_callbacks: what is done with a batch.
            database, cost_model: what the strategies look into.
        """
        self.database_, self.cost_model_ = database, cost_model
        self.measure_callbacks_ = measure_callbacks
        pairs = zip(tasks, task_weights, strict=True)
        self.tasks_ = [TaskRecord(ctx, weight) for ctx, weight in pairs]
        for one in self.tasks_:
            with Profiler.timeit("GenerateDesignSpace"):
                spaces = one.ctx.generate_design_space()
            one.ctx.pre_tuning(
                max_trials_per_task, num_trials_per_iter, spaces, database, cost_model
            )
        with progress_bar("tuning", max_trials_global) as bar:
            try:
                self._turns(max_trials_global, num_trials_per_iter, builder, runner, bar)
            except KeyboardInterrupt:  # what was measured is kept
                _log.warning("interrupted: what was measured is kept")
        for one in self.tasks_:
            one.ctx.post_tuning()

    def _turns(self, most: int, batch: int, builder: Builder, runner: Runner, bar: Any) -> None:
        left = most
        while left > 0:
            task_id = self.next_task_id()
            if task_id < 0:
                return
            one = self.tasks_[task_id]
            one.ctx.search_strategy.batch = min(batch, left)
            with Profiler.timeit("GenerateMeasureCandidates"):
                candidates = one.ctx.generate_measure_candidates()
            if not candidates:
                self.terminate_task(task_id)
                continue
            self._measure(task_id, candidates, builder, runner)
            left -= len(candidates)
            bar.update(len(candidates))

    def _measure(
        self, task_id: int, candidates: Sequence[Any], builder: Builder, runner: Runner
    ) -> None:
        """Build, run and tell of a batch."""
        one = self.tasks_[task_id]
        with Profiler.timeit("SendToBuilder"):
            built = builder.build([BuilderInput(x.sch.mod, one.ctx.target) for x in candidates])
        kept = [n for n, b in enumerate(built) if b.error_msg is None]
        reference = _default(one.ctx)
        with Profiler.timeit("SendToRunner"):
            asked = [
                RunnerInput(
                    str(built[n].artifact_path),
                    str(one.ctx.target),
                    candidates[n].args_info,
                    reference,
                )
                for n in kept
            ]
            ran = {n: f.result() for n, f in zip(kept, runner.run(asked), strict=True)}
        results = [
            ran.get(n) or RunnerResult(None, built[n].error_msg) for n in range(len(candidates))
        ]
        self.touch_task(task_id, built, results)
        one.ctx.notify_runner_results(list(candidates), results)
        with Profiler.timeit("MeasureCallback"):
            for callback in self.measure_callbacks_:
                callback.apply(self, task_id, candidates, built, results)

    def touch_task(
        self, task_id: int, built: Sequence[Any] = (), results: Sequence[Any] = ()
    ) -> None:
        """Note what came of a batch of a task."""
        one = self.tasks_[task_id]
        one.trials += len(results)
        one.build_error_count += sum(b.error_msg is not None for b in built)
        taken = [sum(r.run_secs) / len(r.run_secs) for r in results if r.run_secs]
        for result in results:
            if result.error_msg is not None:
                one.reasons[result.error_msg] = one.reasons.get(result.error_msg, 0) + 1
        one.run_error_count = sum(one.reasons.values()) - one.build_error_count
        one.best.append(min([*one.best[-1:], *taken], default=float("inf")))

    def terminate_task(self, task_id: int) -> None:
        """Try nothing more of a task."""
        self.tasks_[task_id].is_terminated = True

    def join_running_task(self, task_id: int) -> list[Any]:
        """For TVM's callers: batches here are done when they were started."""
        return []

    def print_tuning_statistics(self) -> str:
        """A line for each task, printed and given."""
        lines = []
        for n, one in enumerate(self.tasks_):
            best = one.best[-1] if one.best else float("inf")
            speed = f"{one.flop / best / 1e9:.1f} GFLOP/s" if best < float("inf") else "none ran"
            told = "".join(f"; {count} x {why[:80]}" for why, count in one.reasons.items())
            lines.append(
                f"{n} {one.ctx.task_name}: {one.trials} tried, best {best * 1e6:.1f} us, "
                f"{speed}{told}"
            )
        text = "\n".join(lines)
        print(text)
        return text


PyTaskScheduler = TaskScheduler


class RoundRobin(TaskScheduler):
    """Each task in its turn, one after the other."""

    kind = "round-robin"
    _last: int = -1

    def next_task_id(self) -> int:
        """The next task that is not done; -1 where all are."""
        for step in range(1, len(self.tasks_) + 1):
            at = (self._last + step) % len(self.tasks_)
            if not self.tasks_[at].is_terminated:
                self._last = at
                return at
        return -1


class GradientBased(TaskScheduler):
    """The task with the most to gain has the next turn: each once, then by gain; a task of which
    nothing ran counts as one with much to gain.

        gain = weight x (alpha x what the last batches gained + (1 - alpha) x best / batches)

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


def _default(context: Any) -> str | None:
    """The default schedule as JSON: its results are those that candidates must have."""
    work = context.workload
    made = schedule_cpu(work.func, context.target) if context.target.is_cpu else None
    if made is None:
        return None
    return save_json(IRModule.make({work.entry: made.mod[made.func_working_on]}))
