"""The access replay: touches of arrays as grids, hit, miss and driven out, on a clock.

    found = mlc.observe.accesses(func, cache="32K/8way/64B")    default: the target's caches
    found = mlc.observe.accesses(before, after)                 side by side on one clock
    found.counts["L1"].misses, found.misses["A"]["L1"], found.histogram, found.runs

The page holds all that it plays, small enough to travel with a notebook. Its clock counts accesses:
of a run of at most SHOWN all are played, of a longer one stretches of SPAN, evenly spread over it,
the first and the last among them. A stretch begins with the state of the nearest cache at its first
access, and with counts up to there, which are of the whole run: so the page can be taken to any
place of any stretch. Numbers that grow by little are kept as differences: loops make the same ones
again and again, and a deflated snapshot has them once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.machine.cache import EMPTY
from mlcnb.machine.reuse import Histogram
from mlcnb.observe.access import Run, ThroughCaches, function_of, replayed, words_of
from mlcnb.tir.schedule import Schedule
from mlcnb.view import access as view
from mlcnb.view.access import ASSUMED, levels, per_line, verdicts
from mlcnb.view.cells import Grid, grid_of
from mlcnb.view.parts import Part
from mlcnb.view.words import clip, dims
from mlcnb.widgets.base import Interactive

#: programs side by side
MOST_RUNS = 2


class AccessReplay(ThroughCaches[Run], Interactive):
    """One program's accesses through caches, or two programs' on one clock."""

    module = "access"
    traits = ("cursor",)

    @property
    def histogram(self) -> Histogram:
        """How many touches have which reuse distance, in lines."""
        return self.runs[0].histogram

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


#: accesses of a run that are played at most, and of one stretch
SHOWN, SPAN = 24_000, 1_000
#: bytes of a snapshot as it travels
LIMIT = 300_000
#: points of the line of miss rates
POINTS = 120
#: cells of all arrays together
CELLS = 48_000


def snapshot_of(runs: Sequence[Run]) -> dict[str, Any]:
    """The page's data: as many stretches as there is room for."""
    shown = SHOWN
    while True:
        found = _snapshot(runs, shown)
        if shown <= 2 * SPAN or _travels(found) <= LIMIT:
            return found
        shown //= 2


def _travels(snapshot: dict[str, Any]) -> int:
    text = json.dumps(snapshot, separators=(",", ":"))
    return len(zlib.compress(text.encode(), 9)) * 4 // 3


def _snapshot(runs: Sequence[Run], shown: int) -> dict[str, Any]:
    clock = max(len(r) for r in runs)
    starts = _starts(clock, shown)
    return {
        "title": _title(runs),
        "levels": [level.name for level in runs[0].levels],
        "line": runs[0].levels[0].line,
        "holds": [level.lines for level in runs[0].levels],
        "clock": clock,
        "span": SPAN,
        "starts": starts,
        "says": _says(clock, starts),
        "verdicts": verdicts(runs),
        "assumed": ASSUMED,
        "runs": [_run(r, starts, clock) for r in runs],
    }


def _title(runs: Sequence[Run]) -> str:
    part = ", where the program begins" if any(r.is_part for r in runs) else ""
    return f"Access replay through {levels(runs[0])}{part}"


def _starts(clock: int, shown: int) -> list[int]:
    if clock <= shown:
        return list(range(0, max(clock, 1), SPAN))
    stretches = shown // SPAN
    return [round(n * (clock - SPAN) / (stretches - 1)) for n in range(stretches)]


def _says(clock: int, starts: list[int]) -> str:
    if len(starts) * SPAN >= clock:
        return f"all {clock:,} accesses are played"
    return (
        f"{len(starts)} stretches of {SPAN:,} accesses are played, evenly spread over {clock:,}; "
        "counts are of all"
    )


def _run(r: Run, starts: list[int], clock: int) -> dict[str, Any]:
    grids = _grids(r)
    found = r.histogram
    return {
        "name": clip(r.name),
        "total": len(r),
        "arrays": [_array(grid, heat) for grid, heat in zip(grids, _heats(r, grids), strict=True)],
        "sites": [
            [s.array, int(s.is_write), s.itemsize, clip(words_of(s), 60), clip(s.block, 40)]
            for s in r.program.sites
        ],
        "bySite": r.by_site.tolist(),
        "byArray": r.by_array.tolist(),
        "out": r.evictions.tolist(),
        "linesOf": r.lines_of,
        "rates": _rates(r, clock),
        "reuse": [[*found.bounds(n), count] for n, count in enumerate(found.counts)],
        "cold": found.cold,
        "stretches": _stretches(r, starts, grids),
    }


def _grids(r: Run) -> list[Grid]:
    most = max(256, min(16_384, CELLS // max(len(r.program.arrays), 1)))
    return [grid_of(array, r.levels[0].line, most) for array in r.program.arrays]


def _heats(r: Run, grids: list[Grid]) -> list[list[int]]:
    """Misses of each cell; elements of a line have the line's, which is kept once."""
    misses = per_line(r)
    return [_runs(grid.spread(misses)) for grid in grids]


def _runs(values: np.ndarray) -> list[int]:
    """Run lengths: value, how often, value, how often, …"""
    if not len(values):
        return []
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    lengths = np.diff(ends, prepend=-1)
    return np.stack([values[ends], lengths], 1).reshape(-1).tolist()


def _array(grid: Grid, heat: list[int]) -> dict[str, Any]:
    array = grid.array
    return {
        "name": clip(array.name, 40),
        "kind": f"{dims(array.shape) or 'scalar'} {array.dtype}",
        "shape": list(array.shape),
        "base": array.base,
        "item": array.itemsize,
        "nbytes": array.nbytes,
        "unit": grid.unit,
        "columns": grid.columns,
        "cells": grid.cells,
        "says": grid.says,
        "heat": heat,
    }


def _rates(r: Run, clock: int) -> list[int]:
    """Misses of a thousand accesses, in each part of the clock; fewer where the run is over."""
    if not len(r):
        return []
    edges = np.linspace(0, clock, POINTS + 1).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(r.served > 0)])
    ends = np.minimum(edges, len(r))
    missed, touched = np.diff(total[ends]), np.diff(ends)
    kept = touched > 0
    return np.round(1000 * missed[kept] / touched[kept]).astype(int).tolist()


def _stretches(r: Run, starts: list[int], grids: list[Grid]) -> list[dict[str, Any]]:
    """Each stretch with the counts and the state of the cache at its beginning."""
    ends = [min(start + SPAN, len(r)) for start in starts]
    lines = int(max((a.base + a.nbytes for a in r.program.arrays), default=0)) // r.levels[0].line
    arrays, width = r.arrays, len(r.levels) + 1
    brought, driven = np.zeros(lines + 2, np.int64), np.zeros(lines + 2, np.int64)
    counts = np.zeros(len(r.program.arrays) * width, np.int64)
    out = np.zeros(len(r.program.arrays), np.int64)
    found, done = [], 0
    for start, end in zip(starts, ends, strict=True):
        start = min(start, len(r))
        part = slice(done, start)
        missed = r.served[part] > 0
        victims = r.nearest.victim[part]
        victims = victims[victims != EMPTY]
        brought += np.bincount(r.lines[part][missed], minlength=len(brought))
        driven += np.bincount(victims, minlength=len(driven))
        counts += np.bincount(
            arrays[part] * np.int32(width) + r.served[part], minlength=len(counts)
        )
        out += np.bincount(r.owners(victims), minlength=len(out))
        done = start
        state = {
            "resident": np.diff(np.flatnonzero(brought > driven), prepend=0).tolist(),
            "seen": [_runs((grid.spread(brought) > 0).astype(int)) for grid in grids],
            "counts": counts.tolist(),
            "out": out.tolist(),
        }
        found.append({**state, **_touches(r, slice(start, end))})
    return found


def _touches(r: Run, part: slice) -> dict[str, Any]:
    """Of each access its site, how far from the last one of that site, where it was found."""
    sites, addresses = r.stream.sites[part], r.stream.addresses[part].astype(np.int64)
    moved = np.zeros(len(sites), np.int64)
    for number in np.unique(sites):
        site, at = r.program.sites[number], sites == number
        base = r.program.arrays[site.array].base
        moved[at] = np.diff((addresses[at] - base) // site.itemsize, prepend=0)
    missed = r.served[part] > 0
    victims = r.nearest.victim[part][missed].astype(np.int64)
    return {
        "sites": sites.tolist(),
        "moved": moved.tolist(),
        "served": "".join(map(str, r.served[part].tolist())),
        "victims": np.diff(victims, prepend=0).tolist(),
    }
