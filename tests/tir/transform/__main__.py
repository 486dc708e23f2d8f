"""python -m tests.tir.transform [FIRST LAST [PROGRAM ...]]: random schedules, lowered and compiled.

Every program of `random_steps` (so all of `carried` too) under the random schedules of the seeds
FIRST to LAST (default 0 to 100), each checked after every lowering pass and compiled with LLVM.
"""

from __future__ import annotations

import sys

from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check_lowering, random_schedule


def main(first: int = 0, last: int = 100, *names: str) -> int:
    """Check all; gives the number of failures, each reported with its program and seed."""
    failures = count = 0
    for name in names or sorted(PROGRAMS):
        given = PROGRAMS[name]()
        for seed in range(first, last):
            count += 1
            try:
                check_lowering(given, random_schedule(name, seed))
            except Exception as error:  # noqa: BLE001 (a run reports everything that it finds)
                failures += 1
                print(f"{name} {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{count} schedules, {failures} wrong")
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:3]), *sys.argv[3:])))
