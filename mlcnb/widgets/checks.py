"""Badges of steps: what is known of each, and how far its numbers are from those of the program as
given.

by rule · proved · = 0 (same arrays) · trusted

Small programs are run by the reference interpreter, loops that run in parallel from the end; larger
ones are compiled. Both times on the same random arrays as the program as given.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.proof import backwards, run
from mlcnb.tir.schedule.schedule import Schedule
from mlcnb.tir.stmt import Block, For
from mlcnb.view.words import clip
from mlcnb.widgets.storyboard import KEPT, places

#: iterations of one program that the interpreter runs, of all steps when a page opens, and of one
#: that is compiled and run
INTERPRETED, AT_ONCE, COMPILED = 300_000, 60_000, 3_000_000_000


@lru_cache(KEPT)
def iterations_of(func: PrimFunc) -> int:
    """How often all blocks run; the iterations of a size that is not known are few."""
    return sum(x.times or 1000 for x in places(func) if isinstance(x.node, Block))


class Checks:
    """What was found out by running, for each function before and after."""

    def __init__(self) -> None:
        self._found: dict[tuple[PrimFunc, PrimFunc], tuple[float | None, str]] = {}
        self._runs: dict[PrimFunc, list[np.ndarray]] = {}

    def run(self, sch: Schedule) -> dict[int, str]:
        """Step -> how far it differs from the program as given, in words."""
        found = {}
        for step in sch.steps[1:]:
            words = [self._words(before, after) for before, after in _pairs(sch, step)]
            found[step.number] = "; ".join(words) or "nothing to run"
        self._runs.clear()
        return found

    def badge(self, sch: Schedule, step: Any) -> list[Any]:
        """[kind, what is proved, error or None, how that was run] for a page."""
        if step.instruction is None:
            return ["given", "", None, ""]
        pairs = list(_pairs(sch, step))
        kind = (
            "proved"
            if step.proof.startswith("proved")
            else "trusted"
            if step.proof == "trusted"
            else "rule"
        )
        if "numeric" in step.proof:
            kind = "numeric"
        if sum(iterations_of(after) for _, after in pairs) * len(sch.steps) <= AT_ONCE:
            for before, after in pairs:
                self._check(before, after)
        known = [self._found[pair] for pair in pairs if pair in self._found]
        errors = [x for x, _ in known if x is not None]
        ways = dict.fromkeys(way for _, way in known)
        worst = max(errors) if errors else None
        shown = None if worst is None else float(f"{worst:.2g}") if np.isfinite(worst) else 1e300
        return [kind, clip(step.proof, 120), shown, "; ".join(ways)]

    def _words(self, before: PrimFunc, after: PrimFunc) -> str:
        error, way = self._check(before, after)
        return way if error is None else f"differs by {error:.2g} ({way})"

    def _check(self, before: PrimFunc, after: PrimFunc) -> tuple[float | None, str]:
        key = (before, after)
        if key not in self._found:
            try:
                self._found[key] = self._compared(before, after)
            except MLCError as error:
                self._found[key] = (None, f"not run: {clip(error.message, 120)}")
        return self._found[key]

    def _compared(self, before: PrimFunc, after: PrimFunc) -> tuple[float | None, str]:
        """The largest difference of an output, relative to its largest element; and how it ran."""
        most = max(iterations_of(before), iterations_of(after))
        if most > COMPILED:
            return None, f"not run: {most:.1e} iterations are too many"
        if most <= INTERPRETED:
            way = "same arrays, reference interpreter"
            found = [self._interpreted(before), run(backwards(after))]
        elif _is_bound(after):
            return None, "not run: too large to simulate a GPU"
        else:
            way = "same arrays, compiled"
            found = [self._compiled(before), _compiled(after)]
        if [x.shape for x in found[0]] != [x.shape for x in found[1]]:
            return None, "not run: the shape of a parameter changes"
        return max((_gap(x, y) for x, y in zip(*found, strict=True)), default=0.0), way

    def _interpreted(self, func: PrimFunc) -> list[np.ndarray]:
        if func not in self._runs:
            self._runs[func] = run(func)
        return self._runs[func]

    def _compiled(self, func: PrimFunc) -> list[np.ndarray]:
        if func not in self._runs:
            self._runs[func] = _compiled(func)
        return self._runs[func]


def _pairs(sch: Schedule, step: Any) -> list[tuple[PrimFunc, PrimFunc]]:
    """The functions as given and after a step, where they are not the same."""
    given = sch.steps[0].mod
    pairs = [(given[v], f) for v, f in step.mod.items() if v in given.functions]
    return [(a, b) for a, b in pairs if a is not b and isinstance(b, PrimFunc)]


def _is_bound(func: PrimFunc) -> bool:
    return any(isinstance(n, For) and n.thread_binding for n in walk(func.body))


def _compiled(func: PrimFunc) -> list[np.ndarray]:
    """All buffers after the compiled function ran on random inputs."""
    from mlcnb.driver import compile
    from mlcnb.runtime.tensor import tensor

    random = np.random.default_rng(0)
    arrays = []
    for buffer in func.buffers:
        shape = [p.as_int(x) or 0 for x in buffer.shape]
        if 0 in shape:
            raise MLCError(f"{buffer.name} has a size that is not known")
        drawn = (
            random.standard_normal(shape) if buffer.dtype.is_float else random.integers(0, 2, shape)
        )
        arrays.append(tensor(drawn.astype(buffer.dtype.numpy)))
    compile(func, target="llvm")(*arrays)
    return [x.numpy() for x in arrays]


def _gap(x: np.ndarray, y: np.ndarray) -> float:
    a, b = x.astype("float64"), y.astype("float64")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    largest = float(np.nanmax(np.abs(a), initial=0.0)) or 1.0
    return float(np.nanmax(np.abs(a - b), initial=0.0)) / largest
