"""Random schedules and random programs, lowered and compiled: the full run.

    python -m tests.tir.transform schedules FIRST LAST [PROGRAM ...]
    python -m tests.tir.transform programs FIRST LAST

schedules: every program of `random_steps` (so all of `carried` too) under the random schedules of
the seeds FIRST to LAST. programs: the programs of `random_programs` of these seeds. Each is checked
after every pass, and compiled with LLVM.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check_lowering, random_schedule
from tests.tir.transform.random_programs import check_program


def schedules(first: int, last: int, names: list[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """A check for each program and seed."""
    for name in names or sorted(PROGRAMS):
        for seed in range(first, last):
            yield (
                f"{name} {seed}",
                lambda name=name, seed=seed: check_lowering(  # type: ignore[misc]
                    PROGRAMS[name](), random_schedule(name, seed)
                ),
            )


def programs(first: int, last: int, _names: list[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """A check for each seed."""
    for seed in range(first, last):
        yield f"program {seed}", lambda seed=seed: check_program(seed)  # type: ignore[misc]


def main(kind: str, first: str, last: str, *names: str) -> int:
    """Check all; gives the number of failures, each reported with its program and seed."""
    failures = count = 0
    kinds = {"schedules": schedules, "programs": programs}
    for name, check in kinds[kind](int(first), int(last), list(names)):
        count += 1
        try:
            check()
        except Exception as error:  # noqa: BLE001 (a run reports everything that it finds)
            failures += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    print(f"{count} {kind}, {failures} wrong")
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
