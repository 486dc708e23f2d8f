"""Searches by the names of TVM's `meta_schedule`, over ours.

    database = ms.tune_tir(matmul, target="llvm", work_dir="tuned", max_trials_global=64)
    sch = ms.compile_tir(database, matmul, target="llvm")

    database = ms.relax_integration.tune_relax(mod, params, target, work_dir, max_trials_global=200)
    ex = ms.relax_integration.compile_relax(database, mod, target, params)

What differs: the search begins at the default schedules. The passes give the module back as it was
and fill the database, as TVM's do. Options that choose parts of TVM's search are refused by name.
https://tvm.apache.org/docs/reference/api/python/meta_schedule.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.driver import compile
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.meta_schedule.database import Database, JSONDatabase
from mlcnb.meta_schedule.tune import extract_tasks as tasks_of
from mlcnb.meta_schedule.tune import tune
from mlcnb.relax.transform.bind_params import BindParams
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

#: what a search may take for each trial where TVM's callers say trials alone, and no seconds
SECONDS = 24 * 3600.0
#: parts of TVM's search that can be named, and what stands here for each
_PARTS = {
    "builder": "local",
    "runner": "local",
    "cost_model": "xgb",
    "measure_callbacks": "default",
    "task_scheduler": "gradient",
    "strategy": "evolutionary",
    "module_equality": "structural",
}
#: options that change nothing here
_TAKEN = ("num_tuning_cores", "post_optimization", "num_threads")


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
    space: Any = "post-order-apply",
    database: Database | str = "json",
    seed: int | None = None,
    special_space: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Database:
    """Tune each loop function of a module: see `mlcnb.tune`.

    Args:
        mod: a PrimFunc, or a module of them; sizes are known, dtypes any.
        target: "llvm", with options.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each function at most.
        num_trials_per_iter: taken for TVM's callers; batches are as large as is fair to measure.
        space: a function Schedule -> Schedule (or several) that draws; else the default rules.
        database: "json" (in `work_dir`), or one of your own.
        seed: of all that is drawn.
        special_space: name of a function -> its own space.
        parts: builder, runner, cost_model, …: only as TVM has them by default.

    Raises:
        MLCError: another part of TVM's search is asked for; a function has open sizes.
    """
    _check(parts)
    keep = _kept(database, work_dir)
    whole = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    funcs = {k.name_hint: f for k, f in whole.functions.items() if isinstance(f, PrimFunc)}
    trials = _share(max_trials_global, len(funcs), max_trials_per_task)
    for name, func in funcs.items():
        own = (special_space or {}).get(name, space)
        given = own if callable(own) or isinstance(own, list | tuple) else None
        tune(func, target, SECONDS, trials=trials, space=given, database=keep, seed=seed or 0)
    return keep


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
    space: Any = "post-order-apply",
    **parts: Any,
) -> Database:
    """Tune the kernels of a graph: see `mlcnb.tune`.

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
    _check(parts)
    keep = _kept(database, work_dir)
    tasks = [
        t
        for t in extract_tasks(mod, target, params)
        if op_names is None or any(name in t.task_name for name in op_names)
    ]
    trials = _share(max_trials_global, len(tasks), max_trials_per_task)
    given = space if callable(space) or isinstance(space, list | tuple) else None
    for task in tasks:
        tune(task.mod, target, SECONDS, trials=trials, space=given, database=keep, seed=seed or 0)
    return keep


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


class MetaScheduleTuneIRMod(ModulePass):
    """Tune the loop functions of a module; it is given back as it was, the records are kept.

    Functions are of any dtypes; their shapes are known.

    Args:
        params: values of the graph's parameters by name.
        work_dir: the folder of the database.
        max_trials_global: candidates in all.
        max_trials_per_task: of each function at most.
        op_names: only functions whose names have one of these in them.

    Raises:
        MLCError: a function has open sizes.
    """

    params: Any = None
    work_dir: str = "tuned"
    max_trials_global: int = 64
    max_trials_per_task: int | None = None
    op_names: Any = None

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Fill the database of `work_dir`."""
        funcs = {k.name_hint: f for k, f in mod.functions.items() if isinstance(f, PrimFunc)}
        wanted = {
            name: f
            for name, f in funcs.items()
            if self.op_names is None or any(part in name for part in self.op_names)
        }
        if not wanted:
            return mod
        trials = _share(self.max_trials_global, len(wanted), self.max_trials_per_task)
        keep, where = JSONDatabase(work_dir=self.work_dir), Target.current() or "llvm"
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


def _kept(database: Database | str, work_dir: str | Path) -> Database:
    return database if isinstance(database, Database) else JSONDatabase(work_dir=work_dir)


def _check(parts: Mapping[str, Any]) -> None:
    """Refuse what chooses another part of TVM's search than its default."""
    for name, given in parts.items():
        if name not in _TAKEN and _PARTS.get(name) != given:
            raise MLCError(
                f"no {name}={given!r} here: the search is mlcnb's own",
                hint="leave it out; mlc.tune has runner=, space=, seconds= and on_trial=",
            )
