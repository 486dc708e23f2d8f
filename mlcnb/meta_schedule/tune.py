"""tune: half a minute of search for a schedule that is faster than the default one.

    found = mlc.tune(matmul, seconds=30)         one loop function, or a model: all its kernels
    found                                        0.93 x the default's time [0.92, 0.95], 212 tried …
    with found.database: ex = mlc.compile(mod)   runs as the best records say

The default schedule is candidate 0: it is in every race, and stays where nothing is proved to be
faster, so that the result is never slower. Candidates are the default rules with decisions made
otherwise (`space`), the cheapest by the rules' own reckoning first, then those that a model likes
that learned from what was measured; what stands at the end runs in turns with the default
until the interval of the ratio excludes 1.

What is compiled and timed runs in processes of their own (`child`): what crashes, hangs or computes
something else is one candidate less, with its reason. First a batch is compiled, on all cores; then
it is timed, and nothing else runs.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from mlcnb.core import above, display
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.progress import progress_bar
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.json import load_json
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.child import do_job, end_all
from mlcnb.meta_schedule.database import Database, MemoryDatabase, Workload
from mlcnb.meta_schedule.found import Trial, Tuning
from mlcnb.meta_schedule.search import (
    COMPILE_TIMEOUT,
    HEAT,
    RACE_TIMEOUT,
    Hint,
    Search,
    executor_of,
)
from mlcnb.meta_schedule.space import RULE, DefaultSpace
from mlcnb.meta_schedule.tape import read_tape
from mlcnb.relax.analysis.variables import uses
from mlcnb.relax.expr import Function
from mlcnb.relax.transform.pipeline import get_pipeline
from mlcnb.runtime.threads import get_num_threads
from mlcnb.target import Target
from mlcnb.tir.analysis import flops
from mlcnb.tir.analysis.safety import secured
from mlcnb.tir.analysis.variables import unknown_parameter
from mlcnb.tir.function import PrimFunc

#: a kernel that takes less than this part of all kernels' time is left as it is
WORTH = 0.01
#: seconds that a kernel is searched, at least: less finds nothing
LEAST = 1.5
#: the part of the time in which kernels are timed to see where the time goes, how many of them are
#: compiled together, and how far the count of their work may be wrong
FOR_DEFAULTS, AT_ONCE, UNSURE = 0.2, 16, 4.0
#: multiply-adds in vectors, and bytes, of a cycle: only to tell which kernels are worth timing
PER_CYCLE, PER_CYCLE_BYTES = 2.0, 8.0


@dataclass(repr=False)
class ModelTuning(display.Shown):
    """What `tune` found for the kernels of a model.

    Attributes:
        tasks: (what was found, calls of the kernel in one run), the dearest first.
        left: names of kernels that were not searched, since they take next to no time.
        database: where the best of each is kept: `with tuning.database: mlc.compile(mod)`.
        seconds: that it took.
        opened: names of kernels of open sizes: there is nothing to time them with.
    """

    tasks: list[tuple[Tuning, int]]
    left: list[str]
    database: Database
    seconds: float
    opened: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Time of the tuned kernels by that of the default ones, both as measured alone."""
        before = sum(calls * (t.default.seconds or 0) for t, calls in self.tasks)
        after = sum(calls * (t.default.seconds or 0) * t.ratio for t, calls in self.tasks)
        return after / before if before else 1.0


def tune(
    func: PrimFunc | IRModule,
    target: Any = None,
    seconds: float = 30.0,
    *,
    trials: int | None = None,
    space: Any = None,
    database: Database | None = None,
    args: Sequence[Any] | None = None,
    threads: int | None = None,
    seed: int = 0,
    runner: Any = None,
    peers: Mapping[str, float] | None = None,
    on_trial: Callable[[Trial], Any] | None = None,
    stop: Event | None = None,
) -> Tuning | ModelTuning:
    """Search schedules that are faster than the default ones.

    In a notebook a page shows the search while it goes on, and has a button that stops it.

    Args:
        func: a PrimFunc, or a module with one, that nobody has scheduled; or a model, whose kernels
            share the time by what each takes.
        target: "llvm", with options; default: the current one, else this CPU.
        seconds: how long to search.
        trials: how many candidates to try, at most; default: what the time allows.
        space: a function Schedule -> Schedule that draws with `sample_…`, or several; default: the
            rules of the default schedules.
        database: where the best is kept; default: the current one, else a new MemoryDatabase.
        args: arrays (and numbers) to time it with, of the parameters' shapes and dtypes; default:
            random ones, indices within bounds.
        threads: that it runs on; default: as set.
        seed: of everything that is drawn: with the same measurements the search is the same.
        runner: who compiles and times: any `concurrent.futures.Executor`, or a client of Dask;
            default: processes beside this one.
        peers: name -> seconds of one call of what it stands beside, drawn as lines.
        on_trial: called with each trial when it has been timed or rejected.
        stop: an event that ends the search, as Ctrl-C does: what was measured is kept.

    Raises:
        MLCError: the function has open sizes and no `args`; all kernels of the model have open
            sizes; the default schedule cannot be run.
        ScheduleError: no default rule takes it.
    """
    where = searched(target)
    keep = database or Database.current() or MemoryDatabase()
    options = {
        "space": space, "most": trials, "threads": threads, "seed": seed, "runner": runner,
        "stop": stop or Event(), "on_trial": on_trial,
    }  # fmt: skip
    try:
        if isinstance(func, IRModule) and func.of_kind(Function):
            if args is not None or space is not None or peers:
                raise MLCError(
                    "tune: args=, space= and peers= go with one loop function, not with a model",
                    hint="tune(mod[name], args=…) for one of its kernels",
                )
            return _tune_model(func, where, seconds, keep, options)
        workload = Workload.of(func)
        checked = workload.func if args else secured(workload.func, "check")
        search = Search(checked, where, seconds, args=args, levels=dict(peers or {}), **options)
        with _watched(f"tuning {workload.name}", 1) as begin:
            begin(search, workload.name, 1)
            return search.run(workload, keep)
    finally:
        if runner is None:
            end_all()


def replay_tuning(
    record: Any,
    *,
    space: Any = None,
    database: Database | None = None,
    on_trial: Callable[[Trial], Any] | None = None,
) -> Tuning:
    """The decisions of a search once more, from its record: nothing is compiled or measured.

    Args:
        record: what `tune` found for one loop function, or the file that `found.save` wrote.
        space: the functions of the user that were searched, as they were given to `tune`.
        database: where the best is kept; default: a new MemoryDatabase.
        on_trial: called with each trial.

    Raises:
        ModelError: it is no record of a search.
        MLCError: rules, target or space have changed: it would decide otherwise.
    """
    tape = read_tape(record)
    head = tape.head
    try:
        func, mod = load_json(head["checked"]), load_json(head["mod"])
        options = {k: head[k] for k in ("most", "seed", "threads")}
        hints = [Hint(**hint) for hint in head.get("hints", ())]
        search = Search(
            func, Target(head["target"]), head["budget"], space=space, on_trial=on_trial,
            tape=tape, hints=hints, **options,
        )  # fmt: skip
    except KeyError as error:
        raise ModelError(f"no record of a search: {error} is missing") from error
    except TypeError as error:
        raise ModelError(f"no record of a search: {error}") from error
    return search.run(Workload.of(mod), database or MemoryDatabase())


def extract_tasks(mod: IRModule, target: Target) -> list[tuple[Workload, int]]:
    """The different loop functions of a graph as the default pipeline makes them, and how often
    each is called."""
    with target:
        lowered = get_pipeline("default")(mod)
    calls: Counter[GlobalVar] = Counter(
        n
        for func in lowered.of_kind(Function).values()
        for n in uses(func)
        if isinstance(n, GlobalVar)
    )
    found: dict[str, tuple[Workload, int]] = {}
    for key, func in lowered.of_kind(PrimFunc).items():
        if calls[key] and not func.attrs.get("tir.is_scheduled"):
            made = Workload.of(IRModule.make({key.name_hint: func}))
            known, count = found.get(made.meaning, (made, 0))
            found[made.meaning] = (known, count + calls[key])
    return list(found.values())


def _tune_model(
    mod: IRModule,
    target: Target,
    seconds: float,
    database: Database,
    options: dict[str, Any],
) -> ModelTuning:
    """Each kernel for a part of the time that goes with its part of the model's.

    What made one faster is tried first for the next of the same rule.
    """
    start = time.perf_counter()
    tasks: list[tuple[Workload, int]] = []
    opened: list[str] = []
    for workload, calls in extract_tasks(mod, target):
        if unknown_parameter(workload.func) is None:
            tasks.append((workload, calls))
        else:
            opened.append(workload.name)
    if opened and not tasks:
        raise MLCError(
            "tune: the sizes of all kernels of the model are open: what should they be timed with?",
            hint='give the model its sizes: from_onnx(model, shape={"x": (1, 3, 224, 224)}), or '
            "relax.transform.BindSymbolicVars",
        )
    given = [(w.func, calls) for w, calls in tasks]
    took = _time_defaults(given, target, seconds * FOR_DEFAULTS, options)
    shares = [calls * s for (_, calls), s in zip(tasks, took, strict=True)]
    whole = sum(shares) or 1.0
    order = sorted(range(len(tasks)), key=lambda n: -shares[n])
    wanted = [n for n in order if shares[n] >= WORTH * whole]
    done: list[tuple[Tuning, int]] = []
    hints: list[Hint] = []
    with _watched("tuning", len(wanted)) as begin:
        for place, n in enumerate(wanted):
            left = seconds - (time.perf_counter() - start)
            if left < LEAST and place:
                break
            rest = sum(shares[m] for m in wanted[place:])
            budget = max(LEAST, left * shares[n] / rest)
            workload, calls = tasks[n]
            search = Search(workload.func, target, budget, hints=[*hints], **options)
            begin(search, workload.name, calls)
            found = search.run(workload, database)
            done.append((found, calls))
            if found.stopped:
                break
            if found.best is not found.default:
                best = found.best.candidate
                hints.append(Hint(best.decisions[RULE], best.choices, found.ratio))
    names = {tuning.name for tuning, _ in done}
    rest_of_them = [w.name for w, _ in tasks if w.name not in names]
    return ModelTuning(done, rest_of_them, database, time.perf_counter() - start, opened)


def _time_defaults(
    tasks: Sequence[tuple[PrimFunc, int]], target: Target, seconds: float, options: dict[str, Any]
) -> list[float]:
    """Seconds of one call of each function as the default rules schedule it; 0.0 where it cannot be
    run, or surely takes next to no time: the dearest by a count of their work are timed, as many as
    the time allows.

    tasks: functions, and how often each is called.
    options: as `Search` has them: threads, seed, runner.
    """
    start, found = time.perf_counter(), [0.0] * len(tasks)
    likely = [calls * _cycles(func, target) for func, calls in tasks]
    least = WORTH / UNSURE * sum(likely)
    order = [n for n in sorted(range(len(tasks)), key=lambda n: -likely[n]) if likely[n] >= least]
    with executor_of(options["runner"]) as executor:
        while order and (not any(found) or time.perf_counter() - start < seconds):
            now, order = order[:AT_ONCE], order[AT_ONCE:]
            texts = {n: DefaultSpace(tasks[n][0], target).first().text for n in now}
            builds = [{"do": "build", "mod": x, "target": str(target)} for x in texts.values()]
            for future in [executor.submit(do_job, job, COMPILE_TIMEOUT) for job in builds]:
                future.result()
            for n, text in texts.items():
                job = {
                    "do": "race", "mods": [text], "target": str(target), "seed": options["seed"],
                    "threads": options["threads"] or get_num_threads(), "seconds": HEAT,
                }  # fmt: skip
                said = executor.submit(do_job, job, RACE_TIMEOUT).result()
                found[n] = statistics.median(said["times"][0]) if "times" in said else 0.0
    return found


def _cycles(func: PrimFunc, target: Target) -> float:
    """About what a call takes: its arithmetic in vectors, and its arguments from a cache."""
    operations = as_int(flops(func)) or 0
    elements = (math.prod(as_int(n) or 1 for n in b.shape) * b.dtype.nbytes for b in func.buffers)
    return operations / (2 * PER_CYCLE * target.lanes("float32")) + sum(elements) / PER_CYCLE_BYTES


Begin = Callable[[Search, str, int], None]


@contextmanager
def _watched(what: str, count: int) -> Iterator[Begin]:
    """Show `count` searches while they go on: as a page where one can be, else as a bar.

    What is yielded is told of each before it begins: the search, its name, calls in one run.
    """
    page = above.ask("page of a search")()
    if page is not None:
        with page:
            yield page.begin
        return
    with progress_bar(what, 100 * count) as bar:
        yield partial(_begin, bar)


def _begin(bar: Any, search: Search, _name: str, _calls: int) -> None:
    """A bar goes on by time, with each trial of a search."""
    shown = 0.0

    def move() -> None:
        nonlocal shown
        now = min(100.0, 100 * search.trials[-1].at / search.budget)
        bar.update(now - shown)
        shown = now

    search.listeners.append(move)


def searched(target: Any) -> Target:
    """The target (default: the current one, else "llvm"); refused where it cannot be searched for.

    Raises:
        MLCError: it is no CPU.
    """
    where = Target(target or Target.current() or "llvm")
    if not where.is_cpu or where.kind != "llvm":
        raise MLCError(f"tune: schedules for {where} are not searched yet", hint='target="llvm"')
    return where
