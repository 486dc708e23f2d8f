"""Fair timing: contestants take turns, so that a slow moment of the machine meets them all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    contestants: Mapping[str, Callable[[], object]], seconds: float = 2.0, least: int = 7
) -> dict[str, float]:
    """Median seconds of one call of each, called in turn for about `seconds` in all.

    Every contestant is called twice before anything counts.
    """
    for run in contestants.values():
        run()
        run()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < least or time.perf_counter() < end:
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: statistics.median(found) for name, found in times.items()}
