"""Going back and forth: a schedule's snapshots, and which of them is the current one.

sch.undo(), sch.redo(), sch.goto(3)      the program, the handles and the trace of that step
sch.restore()                            the steps that a cell replaced when it was run again
sch.copy()                               another schedule that goes on from here
sch.diff(1, 3)                           what changed in between
sch.seed(7), sch.remove_rv(v)            what the current snapshot knows beside the program
"""

from __future__ import annotations

import reprlib
from copy import copy
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Self

from mlcnb.core import cells, display
from mlcnb.core.errors import ScheduleError, StepArgumentError
from mlcnb.ir.module import IRModule
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.state import Random, Snapshot


@dataclass(frozen=True)
class Step:
    """One change of the program: which, when in the trace, how long it took in seconds, and how it
    is known to be legal: `by rule`, `proved (islpy)`, `numeric 0.0 on shape (4, 4)`, `trusted`.
    `run` is the cell of a notebook that did it.
    """

    number: int
    instruction: Instruction | None
    mod: IRModule
    seconds: float
    proof: str = ""
    run: cells.Run | None = None

    @property
    def name(self) -> str:
        """The primitive's name; `start` for the program as it was given."""
        return self.instruction.name if self.instruction else "start"

    def __repr__(self) -> str:
        return f"step {self.number}: {self.name}"


class History:
    """Snapshots and steps, kept for as long as nothing else is done in their place."""

    def __init__(self, start: Snapshot) -> None:
        self._snapshots = [start]
        self._steps = [Step(0, None, start.mod, 0.0)]
        self._now = 0
        self._met = cells.current()
        #: cell -> where the schedule stood when the cell first did something: step, instructions
        self._entered: dict[str, tuple[int, int]] = {}
        #: the schedule as it was before a cell was run again and its steps replaced
        self._replaced: History | None = None

    @property
    def _snapshot(self) -> Snapshot:
        return self._snapshots[self._now]

    def _append(self, after: Snapshot) -> None:
        """Go on from here with a new snapshot; what was undone is forgotten."""
        del self._snapshots[self._now + 1 :], self._steps[self._now + 1 :]
        self._snapshots.append(after)
        self._now += 1

    def _finish(self, seconds: float, proof: str) -> None:
        """The step that led to the current snapshot is done and recorded."""
        inst = self._snapshot.instructions[-1]
        self._steps.append(Step(self._now, inst, self._snapshot.mod, seconds, proof, self._met))

    def __getitem__(self, key: Any) -> Any:
        raise StepArgumentError(
            f"Schedule: there are no stages, such as [{reprlib.repr(key)}]: there are blocks",
            hint='C = sch.get_block("C"); i, j = sch.get_loops(C)',
        )

    @property
    def steps(self) -> list[Step]:
        """The program as given and every change since, those that were undone too."""
        return list(self._steps)

    @property
    def position(self) -> int:
        """The number of the step that the program stands at."""
        return self._now

    def undo(self, steps: int = 1) -> Self:
        """Go back: the program (loops, extents, buffers), handles and trace are as before the step.

        Raises:
            ScheduleError: fewer steps were done, or `steps` is negative.
        """
        if not 0 <= steps <= self._now:
            told = f"{_steps(self._now)} done so far, not {steps}"
            if not self._now and steps > 0:
                told = "no step is left: this is the program as it was given"
            raise ScheduleError(
                f"undo: {told}",
                hint="sch.redo() goes forward" if len(self._snapshots) > self._now + 1 else None,
            )
        return self.goto(self._now - steps)

    def redo(self, steps: int = 1) -> Self:
        """Go forward again after an undo: the same loops, extents and handles as before it.

        Raises:
            ScheduleError: fewer steps were taken back.
        """
        later = len(self._snapshots) - 1 - self._now
        if not 0 <= steps <= later:
            raise ScheduleError(f"redo: {_steps(later)} taken back, not {steps}")
        return self.goto(self._now + steps)

    def restore(self) -> Self:
        """Bring back the steps that a cell replaced when it was run again; twice: replace them.

        The program (loops, extents, buffers), handles and trace are as before the cell was run.

        Raises:
            ScheduleError: no cell has replaced steps of this schedule.
        """
        other = self._replaced
        if other is None:
            raise ScheduleError(
                "restore: no cell has replaced steps of this schedule",
                hint="sch.undo() takes back a step, sch.goto(n) goes to one",
            )
        for name in ("_snapshots", "_steps", "_now", "_entered"):
            mine = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, mine)
        return self

    def goto(self, number: int) -> Self:
        """Stand at a step; 0 is the program as it was given, with its loops and their extents.

        Raises:
            ScheduleError: there is no such step.
        """
        self._refuse_unknown("goto", number)
        while self._now > number:
            self._carry_back()
        self._now = number
        return self

    def _refuse_unknown(self, what: str, number: int) -> None:
        if not 0 <= number < len(self._snapshots):
            raise ScheduleError(
                f"{what}: there is no step {number}",
                hint=f"there are 0 to {len(self._snapshots) - 1}",
            )

    def _carry_back(self) -> None:
        """Handles made by looking at a later program stay good for nodes that were there before."""
        later, earlier = self._snapshots[self._now], self._snapshots[self._now - 1]
        origin = {new: old for old, new in later.forward.items()}
        for handle, (name, n) in later.handles.items():
            old = origin.get(n, n)
            if handle not in earlier.handles and old in earlier.tree(name):
                earlier.handles[handle] = (name, old)
        self._now -= 1

    def copy(self) -> Self:
        """Another schedule that goes on from here; handles are good for both.

        The program, of whatever shapes, is shared, for no step changes it; nothing is refused.
        """
        other = copy(self)
        other._entered = dict(self._entered)
        other._snapshots = [x.duplicate() for x in self._snapshots[: self._now + 1]]
        other._steps = self._steps[: self._now + 1]
        return other

    def diff(self, before: int | None = None, after: int | None = None) -> StepDiff:
        """What changed between two steps, as a unified diff of the text, extents and dtypes
        included; by default the last step. A cell shows added lines on green, removed ones on red.

        Raises:
            ScheduleError: there is no such step.
        """
        after = self._now if after is None else after
        before = max(after - 1, 0) if before is None else before
        for n in (before, after):
            self._refuse_unknown("diff", n)
        return StepDiff.of(self._steps[before], self._steps[after])

    def seed(self, seed: int) -> None:
        """Start the random numbers again from `seed`.

        What was drawn before stays; the same seed draws the same on every machine, for the same
        extents. Any int will do: nothing is raised.
        """
        self._snapshot.seed = Random.start(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's.

        An int from 1 to 2**31 - 1, never refused; this schedule's own draws (of factors of extents,
        of places) go on from another place.
        """
        dice = Random(self._snapshot.seed)
        drawn = dice.integer(Random.MODULUS - 1)
        self._snapshot.seed = dice.state
        return drawn + 1

    def remove_rv(self, rand_var: Any) -> None:
        """Forget a handle or a drawn number.

        The program stays, with all loops and extents; what is not known is forgotten already, and
        not refused.
        """
        self._snapshot.handles.pop(rand_var, None)
        self._snapshot.values.pop(rand_var, None)

    def enter_postproc(self) -> None:
        """Mark where postprocessing begins in the trace.

        In `sch.trace` what follows stands behind `EnterPostproc`; the program stays, with all loops
        and extents, and nothing is refused.
        """
        self._snapshot.instructions.append(Instruction("EnterPostproc"))


def _steps(count: int) -> str:
    """`no step was`, `1 step was`, `3 steps were`."""
    return f"{count or 'no'} step was" if count < 2 else f"{count} steps were"


class StepDiff(str, display.Shown):
    """The difference between two steps: a text with + and - before the lines."""

    __slots__ = ("after", "before")
    before: Step
    after: Step

    @staticmethod
    def of(before: Step, after: Step) -> StepDiff:
        """The difference, of the modules at two steps."""
        old, new = (display.text(x.mod).splitlines() for x in (before, after))
        lines = unified_diff(old, new, repr(before), repr(after), n=2, lineterm="")
        made = StepDiff("\n".join(lines))
        made.before, made.after = before, after
        return made

    def __repr__(self) -> str:
        return str(self)
