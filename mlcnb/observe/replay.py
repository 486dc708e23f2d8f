"""replay: a schedule done again step by step, or a program's accesses one by one.

    mlc.replay(sch, cache="32K/8way/64B")   what caches make of every access: `mlcnb.observe.access`
    mlc.replay(func)                        the same, with the caches of the target
    mlc.replay(before, after, cache=…)      two programs side by side on one clock
    mlc.replay(kernel)                      of one that is bound to the threads of a GPU: what each
                                            warp asks of memory, by sectors and banks

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
from mlcnb.driver import compile, progress_bar
from mlcnb.observe.access import function_of
from mlcnb.observe.benchmark import fixed_threads
from mlcnb.runtime.kernel_call import written
from mlcnb.runtime.strip import Strip, arguments, beside_roof, count, measure_on
from mlcnb.tir.analysis.kernels import uses_threads
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


@dataclass(frozen=True)
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

    def __repr__(self) -> str:
        return display.text(self)


def replay(
    *programs: Any,
    cache: Any = None,
    block: str | Sequence[int] | int | None = None,
    args: Sequence[Any] | None = None,
    at: Sequence[int] | None = None,
    threads: int | None = None,
    first: int | None = None,
    trace: bool = True,
    warp: int | None = None,
    kernel: int | None = None,
) -> Any:
    """The stages of a schedule, timed; or, with `cache`, every access of a program, in order.

    A program that is bound to the threads of a GPU is looked at warp by warp, for coalescing and
    bank conflicts (`mlcnb.widgets.warp.WarpLens`; the rules are in `mlcnb.machine.warp`).

    Args:
        programs: one schedule, whose stages are compiled, run and timed (`Replay`). With `cache`,
            or where it is a PrimFunc, a module or a kernel: one program or two, whose accesses go
            through a model of caches (`mlcnb.widgets.access.AccessReplay`); nothing is timed.
        cache: "32K/8way/64B" (bytes, ways, bytes of a line), a list of levels, a Target, or True
            for the caches of the current target.
        block: only the accesses of the block of this name; of a program for a GPU the thread block
            that is looked at: (x, y, z) in the grid, or as many of them as matter.
        args: arrays that a program runs on, where values in memory decide what it touches.
        at: of stages: numbers of steps; default: where one kind of step ends and another begins.
        threads: of stages: how many run the loops that are parallel by then; default: 1.
        first: only so many accesses, from where the program begins: for long ones.
        trace: False: count what caches make of all accesses, however many, and keep none of them
            (`mlcnb.observe.counts.AccessCounts`): exact, but nothing is played.
        warp: of a program for a GPU: which warp of the block; default: 0.
        kernel: of a program for a GPU that is several kernels: which; default: 0.

    Raises:
        MLCError: what is asked for does not go together; a step that there is none of, a program
            that cannot be run on arrays, or one that computes something else than the first; one
            whose accesses cannot be followed, or are too many.
    """
    on_gpu = [_on_gpu(program) for program in programs]
    if any(on_gpu):
        if not all(on_gpu):
            raise MLCError(
                "replay: one program is bound to the threads of a GPU, the other is not",
                hint="replay each by itself",
            )
        wrong = [("cache", cache), ("args", args), ("at", at), ("threads", threads)]
        wrong += [("first", first), ("trace", None if trace else False)]
        for name, given in wrong:
            if given is not None:
                raise MLCError(
                    f"replay: {name} is not for a program that is bound to the threads of a GPU",
                    hint="choose block=(x, y), warp=n and kernel=n",
                )
        look: Any = display.load("mlcnb.widgets.warp:warp_lens")
        return look(programs, block, warp or 0, kernel or 0)
    for name, number in (("warp", warp), ("kernel", kernel)):
        if number is not None:
            raise MLCError(
                f"replay: {name} is for a program that is bound to the threads of a GPU",
                hint='bind its loops: sch.bind(loop, "threadIdx.x")',
            )
    is_timed = len(programs) == 1 and isinstance(programs[0], Schedule) and cache is None
    counted_only = None if trace else False
    named = ("block", block), ("args", args), ("first", first), ("trace", counted_only)
    of_accesses = [name for name, x in named if x is not None]
    of_stages = [name for name, x in (("at", at), ("threads", threads)) if x is not None]
    if not programs:
        raise MLCError("replay: nothing to replay", hint="pass a schedule or a PrimFunc")
    if is_timed and of_accesses:
        raise MLCError(f"replay: {of_accesses[0]} goes with cache", hint='cache="32K/8way/64B"')
    if is_timed:
        return stages(programs[0], at, threads or 1)
    if of_stages:
        hint = "leave cache out to time the stages of one schedule"
        raise MLCError(f"replay: {of_stages[0]} goes with the stages of a schedule", hint=hint)
    if not trace:
        if args is not None or first is not None:
            wrong_one = "args" if args is not None else "first"
            raise MLCError(f"replay: {wrong_one} goes with a trace", hint="leave trace=False out")
        count: Any = display.load("mlcnb.observe.counts:counted_all")
        return count(programs, cache, block)
    make: Any = display.load("mlcnb.widgets.access:access_replay")
    return make(programs, cache, block, args, first)


def _on_gpu(program: Any) -> bool:
    """Whether a program is one function that is bound to the threads of a GPU."""
    try:
        return uses_threads(function_of(program))
    except MLCError:
        return False


def stages(sch: Schedule, at: Sequence[int] | None = None, threads: int = 1) -> Replay:
    """Compile, run and count the program at several steps of a schedule.

    Args:
        sch: the schedule; it stays where it is. One function with fixed sizes, not for a GPU.
        at: numbers of steps; default: where one kind of step ends and another begins.
        threads: how many run the loops that are parallel by then.

    Raises:
        MLCError: a step that there is none of, a program that cannot be run on arrays, or one
            that computes something else than the first.
    """
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
