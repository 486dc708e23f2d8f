"""What is said of two accesses that nothing orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import DataRaceError
from mlcnb.tir.stmt import Stmt


def race_error(
    name: str, index: tuple[int, ...], scope: str, events: Sequence[tuple[str, Any, bool, Stmt]],
    hint: str,
) -> DataRaceError:  # fmt: skip
    """The error of two accesses: of each who does it, its axes, does it write, its statement."""
    lines = [
        f"  {who} {'writes' if w else 'reads'} it: {text_of(site)}" for who, _, w, site in events
    ]
    element = f"{name}[{', '.join(map(str, index))}]"
    error = DataRaceError(
        f"data race on {element} in {scope} memory: nothing orders these two accesses\n"
        + "\n".join(lines),
        where=events[1][3],
        hint=hint,
    )
    error.buffer, error.index = name, index
    error.threads = tuple(axes for _, axes, _, _ in events)
    error.accesses = tuple(("write" if w else "read", site) for _, _, w, site in events)
    return error


def text_of(site: Stmt) -> str:
    """A statement in one line."""
    lines = display.text(site).splitlines()
    return lines[0] + (" …" if len(lines) > 1 else "")


#: what to do about rounds of a parallel loop that race
ROUNDS = "make the loop serial, or give each round elements of its own (sch.rfactor)"


def remedy(scope: str, same_block: bool) -> str:
    """What to do about threads that race in memory of a scope."""
    if not same_block:
        return (
            "blocks of one kernel cannot wait for each other: give each block elements of its own, "
            "or make it two kernels"
        )
    if scope == "global":
        return (
            "ThreadSync orders accesses to shared memory only: keep the buffer in scope shared, "
            "or bind another loop"
        )
    return (
        'put T.tvm_storage_sync("shared") between the two (ThreadSync does), '
        "or bind another loop to the threads"
    )
