"""replay: a schedule done again step by step.

    mlc.replay(sch)                         each program compiled, run, timed and counted: a row
                                            where one kind of step ends and another begins
    mlc.replay(sch, at=[0, 5, 12])          at these steps

    Replay of main: 12 stages of 23 steps on 1 thread
      step  then                         time  GFLOP/s  of roof  hot loop  vector  FMA  spills
         0  as given                   390 ms      0.6    0.5 %        26   0.0 %   11       0
       …
        23  parallel                  2.04 ms    113.4   98.9 %        28  85.7 %   16       0

    found.plot()                            each stage as a dot under the roof
    found[3].strip, found[3].kernel.asm     all that there is to know of one
    found.after("unroll")                   the one that such a step ended

Every stage works on the same arrays, and what it computes is compared with the first one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.progress import progress_bar
from mlcnb.core.text import kind_of
from mlcnb.driver import compile
from mlcnb.observe.benchmark import fixed_threads
from mlcnb.runtime.kernel_call import written
from mlcnb.runtime.strip import Strip, arguments, beside_roof, count, measure_on
from mlcnb.tir.schedule import Schedule

#: largest difference from the first stage's result, relative to its largest element
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Stage:
    """The program after some steps.

    Attributes:
        step: the number of the last one; 0 is the program as given.
        done: the names of the primitives since the stage before, in order.
        kernel: the program, compiled.
        strip: what was counted and measured.
        difference: from the first stage's result, relative to its largest element.
        calls: the steps since the stage before, as Python.
    """

    step: int
    done: tuple[str, ...]
    kernel: Any = field(repr=False)
    strip: Strip
    difference: float
    calls: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, repr=False)
class Replay(display.Shown):
    """The stages of a schedule, in order."""

    name: str
    stages: tuple[Stage, ...]
    steps: int
    threads: int

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __getitem__(self, number: int) -> Stage:
        return self.stages[number]

    def after(self, name: str) -> Stage:
        """The first stage whose last step is a primitive of that name.

        Raises:
            MLCError: there is none.
        """
        for stage in self.stages:
            if stage.done[-1:] == (name,):
                return stage
        known = ", ".join(dict.fromkeys(s.done[-1] for s in self.stages if s.done))
        raise MLCError(f"replay: no stage ends with {name!r}", hint=f"there are {known}")

    def plot(self, ax: Any = None) -> Any:
        """The speed of each stage, and where it stands under the roof.

        Args:
            ax: two matplotlib axes; by default new ones, which are returned.
        """
        return display.load("mlcnb.view.replay:plot")(self, ax)  # type: ignore[call-arg]


def replay(sch: Schedule, at: Sequence[int] | None = None, threads: int = 1) -> Replay:
    """Compile, run and count the program at several steps of a schedule.

    Args:
        sch: the schedule; it stays where it is. One function with fixed sizes, not for a GPU.
        at: numbers of steps; default: where one kind of step ends and another begins.
        threads: how many run the loops that are parallel by then.

    Raises:
        MLCError: no schedule, a step that there is none of, a program that cannot be run on arrays
            of float or integer dtypes that it takes, or one that computes something else than the
            first.
    """
    if not isinstance(sch, Schedule):
        raise MLCError(
            f"replay: {kind_of(sch)} has no steps",
            hint="pass a Schedule; mlc.observe.accesses and mlc.observe.warp_lens follow a program",
        )
    steps = sch.steps[: sch.position + 1]
    stops = turning_points(sch) if at is None else sorted(set(at))
    if not stops or not all(0 <= n < len(steps) for n in stops):
        known = f"there are 0 to {sch.position}"
        raise MLCError(f"replay: no such steps among {stops}", hint=known)
    found: list[Stage] = []
    told = _calls(sch)
    with fixed_threads(threads), progress_bar("replaying", len(stops)) as bar:
        start, expected = -1, None
        for stop in stops:
            done = tuple(step.name for step in steps[start + 1 : stop + 1])
            stage, result = _stage(steps[stop].mod, stop, done, expected)
            expected = result if expected is None else expected
            made = (told.get(id(step.instruction)) for step in steps[start + 1 : stop + 1])
            found.append(replace(stage, calls=tuple(filter(None, made))))
            start = stop
            bar.update(1)
    first = found[0].strip
    found = [_with_work(stage, first) for stage in found]
    return Replay(found[0].kernel.name, tuple(found), sch.position, threads)


def _with_work(stage: Stage, first: Strip) -> Stage:
    """FLOPs and bytes of the program as given: what a schedule does beyond them is no work."""
    return replace(stage, strip=replace(stage.strip, flops=first.flops, nbytes=first.nbytes))


def _calls(sch: Schedule) -> dict[int, str]:
    """Each instruction of the schedule's trace as a line of Python, by its id."""
    trace = sch.trace
    lines = trace.as_python()[-len(trace) :] if len(trace) else []
    return {id(inst): line.strip() for inst, line in zip(trace, lines, strict=True)}


def turning_points(sch: Schedule) -> list[int]:
    """0, and the last of every run of steps that do the same."""
    named = [(step.name, step.number) for step in sch.steps[: sch.position + 1]]
    return [list(run)[-1][1] for _, run in groupby(named, key=lambda pair: pair[0])]


def _stage(mod: Any, step: int, done: tuple[str, ...], expected: Any) -> tuple[Stage, Any]:
    """One program on arrays that are the same each time, and its results."""
    kernel = compile(mod, target="llvm").kernels[0]
    args = arguments(kernel)
    seconds = None if args is None else measure_on(kernel, args)
    if args is None or seconds is None:
        raise MLCError(
            f"replay: step {step} of {kernel.name} cannot be run on arrays of its own",
            hint="replay functions that take arrays of fixed sizes and assert nothing of them",
        )
    found = [args[n].astype("float64") for n in written(kernel.func)]
    difference = 0.0 if expected is None else _apart(found, expected)
    if not difference <= TOLERANCE:
        raise MLCError(
            f"replay: after step {step} the program computes something else: the results differ "
            f"by {difference:.1e} of the largest element"
        )
    strip = beside_roof(count(kernel), seconds)
    return Stage(step, done, kernel, strip, difference), found


def _apart(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    apart = [0.0]
    for a, b in zip(found, expected, strict=True):
        scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
        apart.append(float(np.max(np.abs(a - b), initial=0.0)) / scale)
    return max(apart)
