"""The warp lens: which sectors and banks the lanes of a warp touch, instruction by instruction.

    found = mlc.observe.warp_lens(func)                 a program that is bound to threads
    found = mlc.observe.warp_lens(func, block=(1, 0), warp=2)
    found = mlc.observe.warp_lens(plain, padded)        two on one clock
    found.runs[0].shared.worst, found.runs[0].globals.efficiency, found.pick((3, 0), 1)

The page holds the requests of one warp of one block; another one is a question to Python. Totals
are of all warps of the kernel (`mlcnb.observe.warps.totals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.machine.warp import LANES
from mlcnb.observe.access import SideBySide, function_of
from mlcnb.observe.warps.kernels import GLOBAL, SHARED, Instruction
from mlcnb.observe.warps.lens import WarpRun, warp_run
from mlcnb.observe.warps.requests import Request
from mlcnb.observe.warps.totals import Count
from mlcnb.view import warp as view
from mlcnb.view.parts import Part
from mlcnb.view.words import clip, percent
from mlcnb.widgets.access import names_of
from mlcnb.widgets.base import Interactive
from mlcnb.widgets.registry import explores

#: requests of each that the page steps through
SHOWN = 320


class WarpLens(SideBySide[WarpRun], Interactive):
    """A warp of one program, or of two on one clock."""

    module = "warp"
    traits = ("cursor",)

    def pick(self, block: Any = None, warp: int = 0) -> WarpLens:
        """Look at another warp; pages that are shown follow.

        Raises:
            MLCError: a program has no such block or warp.
        """
        self.runs = tuple(r.moved(block, warp) for r in self.runs)
        self.refresh()
        return self

    def on_pick(self, block: Sequence[int], warp: int) -> dict[str, Any]:
        """The page wants another warp."""
        self.pick(block, warp)
        return {}

    def snapshot(self) -> dict[str, Any]:
        """What the page shows."""
        return {
            "title": view.title(self.runs),
            "verdicts": view.verdicts(self.runs),
            "assumed": view.ASSUMED,
            "runs": [_run(r) for r in self.runs],
        }

    def parts(self) -> list[Part]:
        """Totals, and the first requests."""
        return view.parts_of(self.runs)


@explores("mlcnb.observe.warps.lens:WarpRun")
def of_run(run: WarpRun) -> WarpLens:
    """The page of one warp and the totals of its kernel."""
    return WarpLens([run])


def warp_lens(*programs: Any, block: Any = None, warp: int = 0, kernel: int = 0) -> WarpLens:
    """What each warp asks of memory, by sectors and banks (the rules: `mlcnb.machine.warp`).

    Args:
        programs: one or two of fixed shapes that are bound to the threads of a GPU: each a
            PrimFunc, a module of one, a schedule or a kernel.
        block: the thread block that is looked at: (x, y, z), or as many of them as matter.
        warp: which warp of the block, of 32 threads each.
        kernel: of a program that is several kernels: which.

    Raises:
        MLCError: no programs, or more than can stand side by side; no such block, warp or kernel;
            a program that is not bound to threads, or cannot be followed.
    """
    found = [
        warp_run(function_of(program), block, warp, kernel, name)
        for program, name in zip(programs, names_of("warp_lens", programs), strict=True)
    ]
    return WarpLens(found)


def _run(r: WarpRun) -> dict[str, Any]:
    numbers = {n: at for at, n in enumerate(r.kernel.instructions)}
    counts = {i.number: c for i, c in r.counts}
    shown = _shown(r)
    return {
        "name": clip(r.name),
        "grid": r.kernel.grid,
        "size": r.kernel.block,
        "block": r.block,
        "warp": r.warp,
        "warps": r.kernel.warps,
        "says": _says(r, shown),
        "summaries": [
            view.summary(memory, r.of(memory))
            for memory in (GLOBAL, SHARED)
            if any(i.memory == memory for i, _ in r.counts)
        ],
        "sample": view.sample(r).removeprefix("; "),
        "unseen": [[clip(text), reason] for text, reason in list(r.unseen.items())[:20]],
        "instructions": [
            _instruction(i, counts.get(i.number)) for i in r.kernel.instructions.values()
        ],
        "requests": [_request(r.requests[n], n, numbers) for n in shown],
    }


def _shown(r: WarpRun) -> list[int]:
    """Numbers of the requests that the page has: the first, and one of each instruction."""
    firsts: dict[int, int] = {}
    for n, q in enumerate(r.requests):
        firsts.setdefault(q.instruction.number, n)
    return sorted({*range(min(len(r), SHOWN)), *list(firsts.values())[:SHOWN]})


def _says(r: WarpRun, shown: list[int]) -> str:
    if r.is_whole and len(shown) == len(r):
        return f"all {len(r):,} requests of this warp"
    of = f"{len(r):,}" if r.is_whole else f"more than {len(r):,}"
    return f"the first {SHOWN:,} requests of this warp, and the first of each instruction, of {of}"


def _instruction(i: Instruction, c: Count | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "text": clip(i.text, 120),
        "array": clip(i.array.name, 40),
        "verb": i.verb,
        "memory": i.memory,
        "width": i.width,
        "item": i.array.itemsize,
        "strides": list(i.strides),
    }
    if c is not None:
        told = view.finding(i.memory, c)
        found["total"] = [c.requests, c.taken, c.ideal, percent(c.efficiency), told]
    return found


def _request(q: Request, at: int, numbers: dict[int, int]) -> dict[str, Any]:
    """One request: addresses as steps from lane to lane, so that equal ones pack well."""
    places = [int(a) if on else None for a, on in zip(q.at, q.active, strict=True)]
    first = next((a for a in places if a is not None), 0)
    moved, last = [], first
    for place in places:
        moved.append(None if place is None else place - last)
        last = last if place is None else place
    return {
        "n": at,
        "of": numbers[q.instruction.number],
        "loops": [[clip(name, 40), value] for name, value in q.loops],
        "first": first,
        "moved": moved[:LANES],
        "taken": q.taken,
        "ideal": q.ideal,
        "says": view.verdict(q),
    }
