"""Searches by the names of TVM's `meta_schedule`, over ours.

    database = ms.tune_tir(matmul, target="llvm", work_dir="tuned", max_trials_global=64)
    sch = ms.compile_tir(database, matmul, target="llvm")

    database = ms.relax_integration.tune_relax(mod, params, target, work_dir, max_trials_global=200)
    ex = ms.relax_integration.compile_relax(database, mod, target, params)

What differs: where nothing is chosen the search is `mlc.tune`, which begins at the default
schedules; where a part of TVM's search is chosen by name or as an object (space, strategy, cost
model, …) it is TVM's loop (`tune_tasks`). The passes give the module back as it was and fill the
database.
https://tvm.apache.org/docs/reference/api/python/meta_schedule.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mlcnb.core.errors import MLCError
from mlcnb.driver import compile
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.meta_schedule.database import Database, JSONDatabase
from mlcnb.meta_schedule.search_strategy import SearchStrategy
from mlcnb.meta_schedule.space_generator import SpaceGenerator
from mlcnb.meta_schedule.tune import extract_tasks as tasks_of
from mlcnb.meta_schedule.tune import searched, tune
from mlcnb.meta_schedule.tune_context import TuneContext
from mlcnb.meta_schedule.tune_tasks import kept_in, tune_tasks
from mlcnb.relax.transform.bind_params import BindParams
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

#: what a search may take for each trial where TVM's callers say trials alone, and no seconds
SECONDS = 24 * 3600.0
#: parts of TVM's loop, which is taken where one of them is chosen
_PARTS = frozenset(
    "builder runner cost_model measure_callbacks task_scheduler strategy module_equality".split()
)
#: options that change nothing here
_TAKEN = ("num_tuning_cores", "post_optimization", "num_threads", "task_name")


@dataclass(frozen=True)
class ExtractedTask:
    """A loop function of a graph.

    Attributes:
        task_name: its name in the module.
        mod: a module that holds it.
        target: what it is for.
        dispatched: the same, in a list, as TVM has it.
        weight: how many calls of it there are.
    """

    task_name: str
    mod: IRModule
    target: Target
    dispatched: list[IRModule]
    weight: int


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    space: Any = None,
    database: Database | str = "json",
    seed: int | None = None,
    special_space: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Database:
    """Tune each loop function of a module: `mlcnb.tune`; `tune_tasks` where parts are chosen.

    Args:
        mod: a PrimFunc, or a module of them; sizes are known, dtypes any.
        target: "llvm", with options.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each function at most.
        num_trials_per_iter: taken for TVM's callers; batches are as large as is fair to measure.
        space: a function Schedule -> Schedule (or several) that draws; a `SpaceGenerator`, or TVM's
            name of one; default: the default rules.
        database: "json" (in `work_dir`), "memory", or one of your own.
        seed: of all that is drawn.
        special_space: name of a function -> its own space.
        parts: strategy, cost_model, builder, runner, task_scheduler, measure_callbacks: TVM's names
            ("evolutionary", "replay-trace", …) or objects.

    Raises:
        MLCError: there is no such part; a function has open sizes.
    """
    keep = kept_in(database, work_dir)
    whole = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    funcs = {k.name_hint: f for k, f in whole.of_kind(PrimFunc).items()}
    own = special_space or {}
    found = [_Task(name, f, target, 1.0, own.get(name, space)) for name, f in funcs.items()]
    counts = max_trials_global, max_trials_per_task, num_trials_per_iter
    return _tuned(found, target, work_dir, counts, keep, space, seed, parts)


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Any) -> Schedule | None:
    """The schedule of the best record of a loop function; None where there is none."""
    return database.query_schedule(mod, target, workload_name="main")


def extract_tasks(
    mod: IRModule, target: Any, params: Mapping[str, Any] | None = None, **_equality: Any
) -> list[ExtractedTask]:
    """The different loop functions of a graph, as the default pipeline makes them.

    Args:
        mod: a module with a graph.
        target: what it is for.
        params: values of parameters by name, which become constants.
    """
    where = Target(target)
    bound = BindParams("main", params)(mod) if params else mod
    return [
        ExtractedTask(w.name, w.mod, where, [w.mod], calls) for w, calls in tasks_of(bound, where)
    ]


def tune_relax(
    mod: IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    op_names: list[str] | None = None,
    *,
    database: Database | str = "json",
    seed: int | None = None,
    num_trials_per_iter: int = 64,
    space: Any = None,
    **parts: Any,
) -> Database:
    """Tune the kernels of a graph: see `tune_tir`.

    Args:
        mod: a module with a graph of known sizes, of any dtypes.
        params: values of parameters by name.
        target: "llvm", with options.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each kernel at most.
        op_names: only kernels whose names have one of these in them.
        database, seed, num_trials_per_iter, space, parts: see `tune_tir`.

    Raises:
        MLCError: another part of TVM's search is asked for.
    """
    keep = kept_in(database, work_dir)
    found = [
        _Task(t.task_name, t.mod, target, float(t.weight), space)
        for t in extract_tasks(mod, target, params)
        if op_names is None or any(name in t.task_name for name in op_names)
    ]
    counts = max_trials_global, max_trials_per_task, num_trials_per_iter
    return _tuned(found, target, work_dir, counts, keep, space, seed, parts)


def compile_relax(
    database: Database,
    mod: IRModule,
    target: Any,
    params: Mapping[str, Any] | None = None,
    enable_warning: bool = False,
) -> Any:
    """The executable of a graph whose kernels are scheduled by the best records.

    Args:
        database: what `tune_relax` gave.
        mod: the same module.
        target: what to compile for.
        params: values of parameters by name.
        enable_warning: taken for TVM's callers.
    """
    with database:
        return compile(mod, target, params)


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str | Path,
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_threads: int | str = "physical",
    seed: int | None = None,
) -> tuple[list[TuneContext], list[float]]:
    """A context for each task, and how often it is called: for `tune_tasks`.

    Args:
        extracted_tasks: what `extract_tasks` gave, of known shapes.
        work_dir, num_threads: taken for TVM's callers.
        space, strategy: of each context, as objects or by name.
        seed: of all that is drawn.
    """
    found = [
        _Task(x.task_name, x.dispatched[0], x.target, float(x.weight), space)
        for x in extracted_tasks
    ]
    return _contexts(found, strategy, seed), [task.weight for task in found]


class MetaScheduleTuneIRMod(ModulePass):
    """Tune the loop functions of a module; it is given back as it was, the records are kept.

    Functions are of any dtypes; their shapes are known.

    Args:
        params: values of the graph's parameters by name.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each function at most.
        op_names: only functions whose names have one of these in them.
        target: what they are for; default: the current one, else "llvm".

    Raises:
        MLCError: a function has open sizes.
    """

    params: Any = None
    work_dir: str = "tuned"
    max_trials_global: int = 64
    max_trials_per_task: int | None = None
    op_names: Any = None
    target: Any = None

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Fill the database of `work_dir`."""
        funcs = {k.name_hint: f for k, f in mod.of_kind(PrimFunc).items()}
        wanted = {
            name: f
            for name, f in funcs.items()
            if self.op_names is None or any(part in name for part in self.op_names)
        }
        if not wanted:
            return mod
        trials = _share(self.max_trials_global, len(wanted), self.max_trials_per_task)
        where = searched(self.target)  # before there is a folder
        keep = JSONDatabase(work_dir=self.work_dir)
        for func in wanted.values():
            tune(func, where, SECONDS, trials=trials, database=keep)
        ctx.note(f"{len(wanted)} functions, {trials} trials each")
        return mod


def MetaScheduleTuneTIR(work_dir: str, max_trials_global: int = 64) -> MetaScheduleTuneIRMod:
    """Tune every loop function of a module: `MetaScheduleTuneIRMod` without parameters.

    Args:
        work_dir: the folder of the database.
        max_trials_global: candidates in all, for functions of any dtypes and of known shapes.

    Raises:
        MLCError: (when it runs) a function has open sizes.
    """
    return MetaScheduleTuneIRMod(None, work_dir, max_trials_global)


def _share(trials: int, tasks: int, most: int | None) -> int:
    """Candidates of one function, where each has its part."""
    share = max(1, -(-trials // max(1, tasks)))
    return share if most is None else min(share, most)


def _is_tvms(space: Any, parts: Mapping[str, Any]) -> bool:
    """Whether a part of TVM's loop is chosen.

    Raises:
        MLCError: there is no such option.
    """
    for name in parts:
        if name not in _PARTS and name not in _TAKEN:
            raise MLCError(f"tune: no option {name!r}", hint=f"one of {', '.join(sorted(_PARTS))}")
    chosen = any(name in _PARTS for name in parts)
    return chosen or isinstance(space, str | SpaceGenerator)


class _Task(NamedTuple):
    """A program that is tuned, and in which space."""

    name: str
    mod: Any
    target: Any
    weight: float
    space: Any


def _contexts(found: Sequence[_Task], strategy: Any, seed: int | None) -> list[TuneContext]:
    strategy = SearchStrategy.create(strategy)
    return [
        TuneContext(
            task.mod,
            target=task.target,
            space_generator=SpaceGenerator.create(task.space or "post-order-apply").clone(),
            search_strategy=strategy.clone(),
            task_name=task.name,
            rand_state=(seed or 0) + number,
        )
        for number, task in enumerate(found)
    ]


def _tuned(
    found: Sequence[_Task],
    target: Any,
    work_dir: str | Path,
    counts: tuple[int, int | None, int],
    keep: Database,
    space: Any,
    seed: int | None,
    parts: Mapping[str, Any],
) -> Database:
    """The records of all tasks, by TVM's loop where a part of it is chosen.

    counts: trials in all, of each task at most, and in a batch.
    """
    if not _is_tvms(space, parts):
        trials = _share(counts[0], len(found), counts[1])
        for task in found:
            own = task.space
            given = own if callable(own) or isinstance(own, list | tuple) else None
            tune(task.mod, target, SECONDS, trials=trials, space=given, database=keep,
                 seed=seed or 0)  # fmt: skip
        return keep
    chosen = {name: value for name, value in parts.items() if name in _PARTS}
    return tune_tasks(
        tasks=_contexts(found, chosen.pop("strategy", "evolutionary"), seed),
        task_weights=[task.weight for task in found],
        work_dir=work_dir,
        max_trials_global=counts[0],
        max_trials_per_task=counts[1],
        num_trials_per_iter=counts[2],
        database=keep,
        **chosen,
    )
