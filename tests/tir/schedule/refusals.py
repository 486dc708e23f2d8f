"""False refusals: steps that are refused, though done by force they compute the same.

    decompose_reduction: block C_rf is no reduction block: …     of 16 refusals of this kind 5 would
                                                                 have done no harm

A refused step is done on a copy of the schedule that trusts its caller. It did no harm if the
program is well formed, and gives the numbers of the program as it was given: for several random
inputs, with marked loops run backwards, without races on simulated threads; and the whole schedule
does the same to the program in another size, where it can be done there.

That no harm was seen is no proof: the table says where to look, not that the rules are wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError, ScheduleError, UnsupportedOpError
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.tir import PrimFunc
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.judge import Judge
from mlcnb.tir.schedule.legality.proof import backwards
from tests.tir.schedule.programs import numbers, only

#: random inputs that a forced step is tried with
SEEDS = (0, 1, 2)
#: primitive, and why it refused
Reason = tuple[str, str]


@dataclass
class Refusals:
    """All refusals, and those that were not needed, by primitive and reason."""

    all: Counter[Reason] = field(default_factory=Counter)
    false: Counter[Reason] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Where no harm was seen, most first."""
        rows = sorted(self.false, key=lambda x: (-self.false[x], x))
        lines = [f"{self.false[x]:5} of {self.all[x]:5}  {x[0]}: {x[1]}" for x in rows]
        total = f"{self.false.total():5} of {self.all.total():5}  refusals would have done no harm"
        return "\n".join([*lines, total])

    def add(self, name: str, error: ScheduleError, sch: Schedule, harmless: bool) -> None:
        """Count a refusal."""
        key = name, reason_of(error, only(sch.mod))
        self.all[key] += 1
        if harmless:
            self.false[key] += 1


def reason_of(error: ScheduleError, func: PrimFunc) -> str:
    """The message with names and numbers taken out."""
    return reason(error.message.split(": ", 1)[-1].splitlines()[0], func)


def reason(text: str, func: PrimFunc) -> str:
    """A line with the names of a function and numbers taken out."""
    names = {n.name for n in walk(func.body) if isinstance(n, Var)}
    names |= {n.name_hint for n in walk(func.body) if isinstance(n, s.Block)}
    names |= {b.name for n in walk(func.body) if isinstance(n, s.Block) for b in n.alloc_buffers}
    names |= {b.name for b in func.buffers}
    text = re.sub(r"[A-Za-z_]\w*", lambda m: "X" if m[0] in names else m[0], text)
    text = re.sub(r"\[[^]]*\]", "[…]", text)
    text = re.sub(r"-?\b\d+\b", "N", text)
    text = re.sub(r"\b(block|loop)s? X(, (block |loop )?X)*( and (block |loop )?X)?", r"\1 X", text)
    return re.sub(r"\bX(, X)+", "X", text)


def forced(sch: Schedule, step: Callable[[Schedule], None]) -> Schedule | None:
    """A copy of the schedule on which a refused step is done; None where it cannot be done."""
    other = sch.copy()
    other.check, other._judge = "none", Judge("none")
    try:
        step(other)
    except (MLCError, LookupError, TypeError, ValueError, AssertionError):
        return None
    return other if other.position > sch.position else None


def is_harmless(sch: Schedule, exact: bool, sizes: tuple[PrimFunc, ...] = ()) -> bool:
    """True if a schedule was seen to compute what it did at the start."""
    start = only(sch.steps[0].mod)
    return _is_same(start, only(sch.mod), exact) and all(
        _is_same(other, made, exact) for other in sizes for made in _resized(sch, other)
    )


def _resized(sch: Schedule, start: PrimFunc) -> list[PrimFunc]:
    """What the schedule makes of another program, if it can be done there."""
    again = Schedule(start, check="none")
    try:
        sch.trace.apply_to_schedule(again)
    except (MLCError, LookupError, TypeError, ValueError, AssertionError):
        return []
    return [only(again.mod)]


def _is_same(start: PrimFunc, func: PrimFunc, exact: bool) -> bool:
    try:
        if not verify_well_formed(func, False):
            return False
        for seed in SEEDS:
            before = numbers(start, seed=seed)
            if not _are_close(before, numbers(backwards(func), seed=seed), exact):
                return False
        return _on_threads(start, func, exact)
    except MLCError:
        return False


def _on_threads(start: PrimFunc, func: PrimFunc, exact: bool) -> bool:
    """The same on simulated threads, where there are any that can be simulated."""
    bound = any(isinstance(n, s.For) and n.thread_binding for n in walk(func.body))
    if not bound:
        return True
    before = numbers(start)
    args = [x.copy() for x in numbers(start, run=False)]
    try:
        run_prim_func(func, args, simulate=True, order=1)
    except UnsupportedOpError:
        return True
    return _are_close(before, tuple(args), exact=False)


def _are_close(before: tuple, after: tuple, exact: bool) -> bool:
    pairs = zip(before, after, strict=True)
    if exact:
        return all(np.array_equal(x, y) for x, y in pairs)
    return all(np.allclose(y, x, rtol=1e-5, atol=1e-5) for x, y in pairs)
