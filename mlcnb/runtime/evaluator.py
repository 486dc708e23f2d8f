"""time_evaluator: how long a function of an executable takes, by TVM's names.

timer = lib.time_evaluator("main", tvm.cpu(), number=10, repeat=3)
found = timer(a, b, c)          .mean, .median, .min, .max, .std: seconds; .results: each repeat

Semantics: https://tvm.apache.org/docs/reference/api/python/runtime/runtime.html
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlcnb.core import display, later
from mlcnb.core.errors import RuntimeInputError


@dataclass(frozen=True)
class BenchmarkResult(display.Shown):
    """Seconds of one call, measured several times; as TVM's class of that name.

    results: of each repeat, the mean over its calls.
    """

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the repeats, in seconds."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median of the repeats, in seconds."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The fastest repeat, in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repeat, in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation over the repeats, in seconds."""
        return statistics.pstdev(self.results)

    def __repr__(self) -> str:
        parts = (f"{n} {getattr(self, n) * 1e3:.4f}" for n in ("mean", "median", "min", "max"))
        return f"{', '.join(parts)}, std {self.std * 1e3:.4f} ms ({len(self.results)} repeats)"

    __str__ = __repr__


def evaluator(
    call: Callable[..., Any],
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
) -> Callable[..., BenchmarkResult]:
    """A function of the same arguments as `call` that times it and gives a BenchmarkResult.

    Args:
        call: what is timed; one call before the clock starts is not counted.
        number: calls in one repeat, whose mean is taken.
        repeat: repeats.
        min_repeat_ms: a repeat makes more calls until it lasts that long.
        cooldown_interval_ms: a pause after every `repeats_to_cooldown` repeats.
        repeats_to_cooldown: see there.

    Raises:
        RuntimeInputError: `number` or `repeat` is less than 1.
    """
    if number < 1 or repeat < 1:
        raise RuntimeInputError(f"time_evaluator: number={number}, repeat={repeat}: both from 1 on")

    def timed(*args: Any) -> BenchmarkResult:
        later.finish()
        call(*args)
        count, found = number, []
        for done in range(1, repeat + 1):
            seconds = _seconds(call, args, count)
            while seconds * 1e3 < min_repeat_ms:
                missing = min_repeat_ms / max(seconds * 1e3, 1e-3)
                count = max(count + 1, int(count * min(missing * 1.1, 16)))
                seconds = _seconds(call, args, count)
            found.append(seconds / count)
            if cooldown_interval_ms and done % repeats_to_cooldown == 0:
                time.sleep(cooldown_interval_ms / 1e3)
        return BenchmarkResult(tuple(found))

    return timed


def _seconds(call: Callable[..., Any], args: tuple[Any, ...], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call(*args)
    return time.perf_counter() - start
