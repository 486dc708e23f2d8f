"""Contestants who take turns, so that a slow moment of the machine meets them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core import later

#: a clock that goes on while other programs have the core, and one that stands still
WALL = ("wall-clock time", time.perf_counter)
CPU = ("CPU time", time.process_time)
#: seconds without work before a turn, in which the threads of the one before stop spinning
REST = 0.002
#: seconds of calls that do not count, in which caches and threads come back
WARM = 0.001
#: calls that count in a turn, at most; and seconds after which a turn is over
BURST, TURN = 5, 0.1
#: seconds of a call that is worth taking more than once, however little time there is
SLOW = 0.5


def interleaved(
    contestants: Mapping[str, Callable[[], Any]],
    seconds: float = 2.0,
    least: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    known: Mapping[str, float] | None = None,
) -> dict[str, list[float]]:
    """Seconds of each call of each contestant, who take turns for about `seconds` in all.

    Taking turns makes a slow moment of the machine meet them all. A turn is a rest, calls that do
    not count (none where a call is longer than a turn), and some that do. One whose first call
    takes longer than all the time there is has had its turn with that.

    Args:
        contestants: name -> a call.
        seconds: about how long it takes in all.
        least: calls of each that count, at least; of slow ones that is one.
        clock: what is looked at before and after a call.
        known: seconds of a call that was made before: of a slow one, its turn.
    """
    later.finish()
    known = known or {}
    slow = {name for name, taken in known.items() if taken > max(seconds, SLOW)}
    first = {
        name: known[name] if name in slow else _seconds(run, clock)
        for name, run in contestants.items()
    }
    slow = {name for name, taken in first.items() if taken > max(seconds, SLOW)}
    times: dict[str, list[float]] = {
        name: [taken] if name in slow else [] for name, taken in first.items()
    }
    fast = {name: run for name, run in contestants.items() if name not in slow}
    end = time.perf_counter() + seconds
    while fast and (min(len(times[n]) for n in fast) < least or time.perf_counter() < end):
        for name, run in fast.items():
            times[name] += _turn(run, clock, first[name] < TURN)
    return times


def _turn(run: Callable[[], Any], clock: Callable[[], float], warm_up: bool) -> list[float]:
    """The seconds of the calls that count in one turn."""
    time.sleep(REST)
    start = time.perf_counter()
    if warm_up:
        run()
    while warm_up and time.perf_counter() - start < WARM:
        run()
    start, found = time.perf_counter(), [_seconds(run, clock)]
    while len(found) < BURST and time.perf_counter() - start < TURN:
        found.append(_seconds(run, clock))
    return found


def _seconds(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def clock_for(threads: int, is_fixed: bool) -> tuple[str, Callable[[], float]]:
    """The clock that fits: of the CPU where all work is done on one thread, and it is fine enough.

    Args:
        threads: how many work.
        is_fixed: False where a library may use more.
    """
    is_fine = time.get_clock_info("process_time").resolution < 1e-5
    return CPU if threads == 1 and is_fixed and is_fine else WALL
