"""What a loop program costs: its work, and what a machine that is named is predicted to make of it.

predicted for caches of L1 32K/8way, L2 1M/8way (usual ones: the function names no target)
                     before      after
work               524 kFLOP  524 kFLOP
misses of L1         16,512      4,608

The caches are those of the function's own target, else usual ones, so that a picture is the same on
every computer. Work is counted, the rest is predicted: see `mlcnb.machine.prediction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcnb.core.errors import MLCError
from mlcnb.machine.cache import LINE, Cache, caches
from mlcnb.machine.prediction import Prediction, predict
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis import bytes_touched
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.parts import Facts, Line, Part, Table, heads
from mlcnb.view.words import clip, count, flops, listed, plural, size

#: the machine where a function names none: `Target.caches` has usual sizes for it
USUAL = "llvm -mcpu=generic"
#: loops and blocks of a program that is predicted for a picture
MOST = 400
#: what a program may raise that is broken, or further on than blocks: it is shown without
BROKEN = (MLCError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Cost:
    """Of one program: operations, bytes of its parameters that it touches, and the prediction."""

    work: object
    moved: int | None
    found: Prediction

    def rows(self) -> list[tuple[str, str, int | None]]:
        """(what, how much in words, as a number that may be compared)."""
        found = self.found
        told: list[tuple[str, str, int | None]] = [
            ("work", clip(flops(self.work)) or "not counted", None)
        ]
        if self.moved:
            told.append(("bytes of parameters", size(self.moved), self.moved))
            if isinstance(self.work, int) and self.work:
                told.append(("intensity", f"{self.work / self.moved:.3g} FLOP/B", None))
        for name, misses in zip(("L1", "L2"), found.misses, strict=False):
            told.append((f"misses of {name}", count(misses), misses))
        gathers = f", gathers {listed(found.strided, 3)}" if found.strided else ""
        told.append(("vector", f"{plural(found.lanes, 'element')}{gathers}", found.lanes))
        if (threads := found.blocks * found.threads) > 1:
            told.append(("in parallel", plural(threads, "thread"), threads))
        else:
            told.append(("in parallel", plural(found.tasks, "task"), found.tasks))
        return told


def cost_of(func: PrimFunc) -> Cost | None:
    """What a function costs; None where that cannot be told."""
    try:
        if sum(isinstance(n, s.For | s.BlockRealize) for n in statements(func.body)) > MOST:
            return None
        target, _ = machine(func)
        return Cost(survey.work(func), moved(func), predict(func, target))
    except BROKEN:
        return None


def machine(func: PrimFunc) -> tuple[Target, str]:
    """The machine whose caches are looked at, and whose they are, in words."""
    own = func.attrs.get("target")
    if isinstance(own, Target) and own.is_cpu:
        return own, f"those of {clip(str(own), 60)}"
    return Target(USUAL), "usual ones: the function names no target"


def moved(func: PrimFunc) -> int | None:
    """Bytes of the parameters' elements that one call touches, where they can be counted."""
    try:
        sizes = bytes_touched(func).values()
    except BROKEN:  # lowered or broken programs are shown too
        return None
    return sum(sizes) if all(isinstance(n, int) for n in sizes) else None


def cost_parts(func: PrimFunc) -> list[Part]:
    """What one function costs."""
    found = cost_of(func)
    if found is None:
        return []
    return [Facts([(what, told) for what, told, _ in found.rows()]), caption(func)]


def change_of_cost(before: PrimFunc, after: PrimFunc) -> list[Part]:
    """What a function cost before a step, and costs now."""
    was, now = cost_of(before), cost_of(after)
    if was is None or now is None:
        return cost_parts(after)
    old = {what: (told, number) for what, told, number in was.rows()}
    rows = []
    for what, told, number in now.rows():
        then, earlier = old.get(what, ("", None))
        rows.append((what, then, told, _ratio(earlier, number)))
    columns = heads(" | before: number | after: number | ")
    return [Table(columns, rows), caption(after)]


def _ratio(before: int | None, after: int | None) -> str:
    """`÷ 3.6` or `× 2`; nothing where a number stays."""
    if not before or not after or before == after:
        return ""
    told = f"{max(before, after) / min(before, after):.3g}"
    return "" if told == "1" else f"{'×' if after > before else '÷'} {told}"


def caption(func: PrimFunc) -> Line:
    """Whose caches the misses are predicted for."""
    target, whose = machine(func)
    levels: Sequence[Cache] = caches(target)[:2]
    told = ", ".join(f"{level.name} {level}" for level in levels).replace(f"/{LINE}B", "")
    return Line(f"misses, vector and tasks are predicted, for caches of {told} ({whose})", "note")
