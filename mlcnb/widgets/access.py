"""The access replay: touches of arrays as grids, hit, miss and driven out, on a clock.

    found = mlc.observe.accesses(func, cache="32K/8way/64B")    default: the target's caches
    found = mlc.observe.accesses(before, after)                 side by side on one clock
    found.counts["L1"].misses, found.misses["A"]["L1"], found.histogram, found.runs

The page holds all that it plays: of a long run some stretches of touches, evenly spread, each with
the state of the cache where it begins (`access_state`); counts are always of the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.machine.reuse import Histogram
from mlcnb.observe.access import Counts, Run, function_of, replayed
from mlcnb.tir.schedule import Schedule
from mlcnb.view import access as view
from mlcnb.view.parts import Part
from mlcnb.widgets.access_state import snapshot_of
from mlcnb.widgets.base import Interactive

#: programs side by side
MOST_RUNS = 2


class AccessReplay(Interactive):
    """One program's accesses through caches, or two programs' on one clock.

    Attributes:
        runs: one for each program; `counts`, `misses` and `histogram` are those of the first.
    """

    module = "access"

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)

    @property
    def counts(self) -> dict[str, Counts]:
        """Level -> touches, hits, misses and evictions."""
        return self.runs[0].counts

    @property
    def misses(self) -> dict[str, dict[str, int]]:
        """Array -> level -> misses."""
        return self.runs[0].misses

    @property
    def histogram(self) -> Histogram:
        """How many touches have which reuse distance, in lines."""
        return self.runs[0].histogram

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, number: int) -> Run:
        return self.runs[number]

    def snapshot(self) -> dict[str, Any]:
        """What the page plays."""
        return snapshot_of(self.runs)

    def parts(self) -> list[Part]:
        """Counts, the first touches, where it misses, reuse distances."""
        return view.parts_of(self.runs)


def accesses(
    *programs: Any,
    cache: Any = None,
    block: str | None = None,
    args: Sequence[Any] | None = None,
    first: int | None = None,
) -> AccessReplay:
    """Every access of a program, in order, through a model of caches; nothing is timed.

    Args:
        programs: one or two, of fixed shapes: each a PrimFunc, a module of one, a schedule or a
            kernel.
        cache: "32K/8way/64B" (bytes, ways, bytes of a line), a list of levels, or a Target;
            default: the caches of the current target.
        block: only the accesses of the block of this name.
        args: arrays that a program runs on, where values in memory decide what it touches.
        first: only so many accesses, from where the program begins: for long ones.

    Raises:
        MLCError: no programs, or more than can stand side by side; no such cache or block; a
            program whose accesses cannot be followed, or are too many.
    """
    names = names_of("accesses", programs)
    return AccessReplay(
        [
            replayed(function_of(p), cache, block=block, args=args, first=first, name=name)
            for p, name in zip(programs, names, strict=True)
        ]
    )


def names_of(asked: str, programs: Sequence[Any]) -> list[str]:
    """Names that tell the programs apart: `matmul`, or `1: matmul` with what was done to it.

    Raises:
        MLCError: no programs, or more than can stand side by side.
    """
    if not programs:
        raise MLCError(f"{asked}: no program", hint="pass a PrimFunc, a schedule or a kernel")
    if len(programs) > MOST_RUNS:
        raise MLCError(
            f"{asked}: {len(programs)} programs, at most {MOST_RUNS} stand side by side",
            hint="look at them two by two",
        )
    found = [_name(p) for p in programs]
    if len(found) < 2:
        return found
    return [f"{n}: {name}" for n, name in enumerate(found, 1)]


def _name(program: Any) -> str:
    symbol = str(function_of(program).attrs.get("global_symbol") or "main")
    if not isinstance(program, Schedule):
        return symbol
    done = [step.name for step in program.steps[1 : program.position + 1]]
    if not done:
        return symbol
    kinds = list(dict.fromkeys(done))
    shown = kinds if len(kinds) < 4 else [*kinds[:2], "…", done[-1]]
    return f"{symbol} after {', '.join(shown)}"
