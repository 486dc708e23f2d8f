"""A case timed: all contestants in turns in one process, and how far each is from float64.

    Row(suite, case, threads, …, results={"mlcnb": Result, "onnxruntime": Result})

A contestant that fails is in the row with the reason; it stops nobody else.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mlcnb.runtime.turns import interleaved
from tests.benchmarks import exact
from tests.benchmarks.case import Case
from tests.benchmarks.contestants import OURS, NotForThis, Run, ready, threads_of_all


@dataclass(frozen=True)
class Result:
    """One contestant: milliseconds of a call (median and quartiles), calls, error; or why not.

    error: the largest difference from float64, relative to the largest element.
    """

    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    runs: int = 0
    error: float | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Row:
    """One case on so many threads."""

    suite: str
    case: str
    threads: int
    flops: int
    nbytes: int
    results: dict[str, Result]
    #: seconds that each contestant took until it could run, and what else is told of the case
    seconds: dict[str, float] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """Our time by the peer's: below 1, mlcnb is the faster one."""
        ours, theirs = (self.results.get(n, Result()).median_ms for n in (OURS, peer))
        return ours / theirs if ours and theirs else None

    @property
    def best_peer(self) -> str | None:
        """The fastest of the others."""
        timed = {n: r.median_ms for n, r in self.results.items() if n != OURS and r.median_ms}
        return min(timed, key=lambda n: timed[n]) if timed else None

    def gflops(self, name: str) -> float | None:
        """10^9 operations a second of a contestant."""
        median = self.results.get(name, Result()).median_ms
        return self.flops / median / 1e6 if median and self.flops else None


def measure(
    cases: Iterable[Case],
    thread_counts: list[int],
    peers: list[str],
    seconds: float,
    accuracy: bool = True,
    target: str = "llvm",
) -> Iterator[Row]:
    """A row for each case and number of threads, as soon as it is there."""
    for case in cases:
        wanted = _exact(case) if accuracy else None
        for threads in thread_counts:
            with threads_of_all(threads, peers):
                yield _row(case, threads, peers, seconds, wanted, target)


def _exact(case: Case) -> list:
    """The result in float64; of a whole model it is kept on disk."""
    return (exact.run_kept if case.path else exact.run)(case.model, case.inputs)


def _row(
    case: Case, threads: int, peers: list[str], seconds: float, wanted: list | None, target: str
) -> Row:
    runs: dict[str, Run] = {}
    results: dict[str, Result] = {}
    took: dict[str, float] = {}
    for name in (OURS, *peers):
        try:
            runs[name] = ready(name, case, threads, took, target)
            found = runs[name]()
            error = None if wanted is None else exact.largest_error(found, wanted)
            results[name] = Result(error=error)
        except NotForThis:
            continue
        except Exception as reason:  # noqa: BLE001 (a peer's failure is a fact about the peer)
            runs.pop(name, None)
            results[name] = Result(failed=f"{type(reason).__name__}: {reason}"[:300])
    if runs:
        for name, times in interleaved(runs, seconds).items():
            results[name] = _result(times, results[name].error)
    return Row(case.suite, case.name, threads, case.flops, case.nbytes, results, took)


def _result(times: list[float], error: float | None) -> Result:
    ms = sorted(t * 1e3 for t in times)
    low, high = ms[len(ms) // 4], ms[(3 * len(ms)) // 4]
    return Result(statistics.median(ms), low, high, len(ms), error)
