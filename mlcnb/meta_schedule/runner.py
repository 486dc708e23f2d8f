"""Runners: from an artifact to seconds.

    runner.run([RunnerInput(artifact_path, "llvm", args_info)]) -> [RunnerFuture]
    future.result() -> RunnerResult(run_secs, error_msg)

`LocalRunner` times one candidate after the other in a process beside this one, or wherever an
executor (or a client of Dask) sends it. Where it is told what to compare with, a candidate whose
results differ has an error and no seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcnb.meta_schedule.child import do_job
from mlcnb.meta_schedule.part import Part
from mlcnb.meta_schedule.search import executor_of
from mlcnb.runtime.threads import get_num_threads


@dataclass
class EvaluatorConfig:
    """How long a candidate is timed.

    Attributes:
        number, repeat: calls are at least number x repeat.
        min_repeat_ms: and so long in all.
        enable_cpu_cache_flush: taken for TVM's callers.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 30
    enable_cpu_cache_flush: bool = False


@dataclass
class RunnerInput:
    """An artifact and what it is called with.

    Attributes:
        artifact_path: what a builder gave.
        device_type: "llvm", "cuda", …: a target.
        args_info: of each parameter.
        reference: a program as JSON whose results are the right ones; None: none is compared.
    """

    artifact_path: str
    device_type: str
    args_info: Sequence[Any] = ()
    reference: str | None = None


@dataclass
class RunnerResult:
    """Seconds of each call, or why there are none."""

    run_secs: list[float] | None
    error_msg: str | None = None


class RunnerFuture:
    """A result that may not be there yet; `PyRunnerFuture` is its name for those of one's own.

    Args:
        f_done: () -> whether it is there.
        f_result: () -> the RunnerResult: waits for it.
    """

    def __init__(
        self,
        f_done: Callable[[], bool] | None = None,
        f_result: Callable[[], RunnerResult] | None = None,
    ) -> None:
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """Whether it is there."""
        return True if self._done is None else self._done()

    def result(self) -> RunnerResult:
        """Wait for it."""
        if self._result is None:
            raise NotImplementedError(f"{type(self).__name__}.result")
        return self._result()


PyRunnerFuture = RunnerFuture


class Runner(Part):
    """A runner; `PyRunner` is its name for those of one's own."""

    folder = "mlcnb.meta_schedule.runner"

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """A future for each artifact."""
        raise NotImplementedError(f"{type(self).__name__}.run")


PyRunner = Runner


class LocalRunner(Runner):
    """One candidate after the other, alone.

    Args:
        timeout_sec: after so long a candidate is given up.
        evaluator_config: how long it is timed.
        executor: where it runs: any `concurrent.futures.Executor`, or a client of Dask; default: a
            process beside this one.
        threads: that it runs on; default: as set.
    """

    kind = "local"

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        *,
        executor: Any = None,
        threads: int | None = None,
        **_taken: Any,
    ) -> None:
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.executor, self.threads = executor, threads

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Futures; those of a process beside this one are there when it returns."""
        if self.executor is None:
            done = [_told(do_job(self._job(x), self.timeout_sec), x) for x in runner_inputs]
            return [RunnerFuture(None, lambda r=r: r) for r in done]  # type: ignore[misc]
        with executor_of(self.executor) as pool:
            sent = [pool.submit(do_job, self._job(x), self.timeout_sec) for x in runner_inputs]
        return [_future(f, x) for f, x in zip(sent, runner_inputs, strict=True)]

    def _job(self, one: RunnerInput) -> dict[str, Any]:
        text = Path(one.artifact_path).read_text()
        how = self.evaluator_config
        mods = [text] if one.reference is None else [one.reference, text]
        return {
            "do": "race",
            "mods": mods,
            "target": one.device_type,
            "threads": self.threads or get_num_threads(),
            "timed": [len(mods) - 1],
            "seconds": how.min_repeat_ms / 1e3,
            "least": how.number * how.repeat,
        }


def _future(sent: Future[Any], one: RunnerInput) -> RunnerFuture:
    return RunnerFuture(sent.done, lambda: _told(sent.result(), one))


def _told(answer: dict[str, Any], one: RunnerInput) -> RunnerResult:
    """What a child said, as a result."""
    if "error" in answer:
        return RunnerResult(None, answer["error"])
    wrong, times = answer["wrong"][-1], answer["times"][-1]
    if wrong is not None:
        return RunnerResult(None, f"computes something else: {wrong}")
    return RunnerResult([float(x) for x in times])
