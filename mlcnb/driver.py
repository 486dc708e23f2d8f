"""compile: the whole flow on one page.

graph passes    the pipeline's, each a step that can be looked at      relax.transform
tuning records  where a database is in use: loops by its records     meta_schedule
kernels         distinct PrimFuncs: schedule, lower, LLVM, object      dlight, codegen
link            objects into this process                              codegen.llvm.library
plan            memory and one native call for each set of sizes       runtime.graph_plan, _call
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from os import PathLike
from typing import Any

from mlcnb.codegen.kernel import backend_of, scheduled_by
from mlcnb.codegen.llvm import foresight
from mlcnb.codegen.llvm.making import schedule_name
from mlcnb.codegen.llvm.symbols import MATH_NAMES
from mlcnb.codegen.llvm.workers import Workers
from mlcnb.core.errors import PassError, TargetError
from mlcnb.core.garbage import collected_between
from mlcnb.core.progress import progress_bar
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.database import in_use
from mlcnb.relax.analysis.calls import check_calls
from mlcnb.relax.analysis.memory_plan import never_called
from mlcnb.relax.analysis.struct_info import static_shape
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Function, Op
from mlcnb.relax.operator import called
from mlcnb.relax.transform.bind_symbolic_vars import BindSymbolicVars
from mlcnb.relax.transform.kept import Lowering
from mlcnb.runtime import threads
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.pages import release_freed
from mlcnb.runtime.versions import Versions
from mlcnb.target import Target
from mlcnb.target.measured import is_wanted
from mlcnb.tir.analysis.made import is_declared
from mlcnb.tir.function import PrimFunc

#: operators of a graph above which what its passes made is kept on disk
MANY_CALLS = 24
#: different products above which kernels are compiled by several processes: about 20 kernels
MANY_PRODUCTS = 16

__path__: list[str] = []  # TVM's `driver` is a package: `driver.build_module` is found


@roomy
def compile(
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    relax_pipeline: Any = "default",
    convolution: str = "auto",
    schedule: Any = "auto",
    bounds: str = "check",
    exec_mode: str = "bytecode",
    specialize: int = 0,
) -> Executable:
    """Compile a module or a function.

    An IRModule of graph functions gives an Executable, `ex(x)` with arrays of the shapes and dtypes
    of `main`; a loop function one in destination-passing style, `ex(a, b, c)`.

    Args:
        mod: an IRModule, a relax Function or a PrimFunc.
        target: "llvm" (this CPU), "llvm -mcpu=…", "interp" (the reference), "cuda" (a GPU; without
            one the result shows its kernels, launches and memory), "cuda-sim" (the same, simulated
            on this CPU); default: the current Target, else "llvm".
        params: values of parameters by name, which become constants: of the function `main`, or of
            the only one that there is.
        relax_pipeline: the name of a pipeline, a pass, or None for a module that is lowered
            already.
        convolution: "auto" takes Winograd's algorithm where it is faster and exact enough; "direct"
            never: no input then has any influence on a result whose window does not hold it.
        schedule: "default" (the rules of `mlcnb.dlight`), None (loops as written), a function
            (PrimFunc, Target) -> Schedule, or "auto": "default" where there is a graph, else None,
            so that a loop function runs as somebody wrote or scheduled it.
        bounds: what is done about accesses of loop functions that may leave their buffers: "check"
            (what is not proved stops the kernel where it happens), "prove" (what is not proved is
            refused) or "trust" (nothing is looked at: a wrong index ends the process). What
            certainly leaves its buffer is refused by both "check" and "prove". On a CPU the same is
            asked of the rounds of parallel loops: two that certainly race are refused, and where
            nothing is proved they run one after the other, or are refused by "prove". On a GPU
            threads that certainly race are refused.
        exec_mode: TVM's "bytecode" or "compiled"; a graph is native code here in both.
        specialize: of a model with open sizes, how many sets of sizes that are met often are
            compiled for themselves, in the background (`mlcnb.runtime.versions`); 0: none.

    Raises:
        TargetError: a target that programs are not made for.
        WellFormedError: an access that leaves its buffer, or memory that is not the function's own.
        DataRaceError: two rounds of a parallel loop, or two threads of a GPU, touch one element,
            and nothing orders them.
        MLCError: what is in the module cannot be compiled, saying what and where.
    """
    where = Target(target or Target.current() or "llvm")
    if schedule is not None and not callable(schedule) and schedule not in ("auto", "default"):
        raise TargetError(
            f"no schedule rules {schedule!r}",
            hint='"auto", "default", None, or a function (PrimFunc, Target) -> Schedule',
        )
    if exec_mode not in ("bytecode", "compiled"):
        raise TargetError(f"no exec_mode {exec_mode!r}", hint='"bytecode" or "compiled"')
    again = partial(
        compile,
        target=where,
        params=params,
        relax_pipeline=relax_pipeline,
        convolution=convolution,
        schedule=schedule,
        bounds=bounds,
    )
    options = _pipeline_options(relax_pipeline, convolution)
    timings: list[tuple[str, float]] = []
    source = module = _as_module(mod)
    if bounds != "trust":
        check_calls(module)
    if where.kind != "interp":
        module = _secured(module, bounds, where)
        schedule = _secured_rule(schedule, bounds, where)
    if schedule == "auto":
        schedule = "default" if _has_graph(module) else None
    with collected_between(), ExitStack() as work:
        outline = _outline(module, where)
        if outline and where.kind == "llvm" and where.mcpu == "host" and is_wanted():
            _timed(timings, "measuring this CPU", _measure_once)
        workers = work.enter_context(_workers(module, outline, where))
        if _has_graph(module):
            given = (_bound(module, params), relax_pipeline, where, options, bool(outline), work)
            module = _timed(timings, "graph passes", _lower_graph, *given)
        if schedule == "default" and in_use.current() is not None:
            module = _timed(timings, "tuning records", _apply_records, module, where)
        trusted = bounds == "trust"
        kernels = _timed(timings, "kernels", _kernels, module, where, schedule, workers, trusted)
    release_freed()
    made = Executable(module, kernels, where, timings)
    if specialize > 0 and where.is_cpu and isinstance(module[made.entry], Function):
        made.versions = Versions(
            source, made.entry, specialize, partial(_version, again, made.entry)
        )
    return made


def _version(again: Any, entry: str, mod: IRModule, sizes: Mapping[Any, int]) -> Executable:
    """A module compiled again with numbers for the symbolic sizes of a function."""
    made: Executable = again(BindSymbolicVars(sizes, entry)(mod))
    return made


#: TVM's name for compiling a module of loop functions
build = compile


def _as_module(mod: Any) -> IRModule:
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, BaseFunc):
        return IRModule.from_expr(mod)
    if hasattr(mod, "mod") and isinstance(mod.mod, IRModule):
        return mod.mod
    hint = "pass an IRModule, a Function or a PrimFunc"
    if isinstance(mod, str | PathLike):
        hint = f"read it first: mlc.compile(mlc.from_onnx({str(mod)!r}))"
    raise TargetError(f"cannot compile {kind_of(mod)}", hint=hint)


def _as_wanted(func: PrimFunc, bounds: str, target: Target) -> PrimFunc:
    """A loop function that a person wrote, its accesses and parallel loops as `bounds` wants."""
    from mlcnb.codegen.rounds import ordered
    from mlcnb.tir.analysis.safety import secured

    found = secured(func, bounds, MATH_NAMES)
    return ordered(found, bounds) if target.is_cpu else found


def _secured(mod: IRModule, bounds: str, target: Target) -> IRModule:
    """The module with each loop function that a person wrote as `bounds` wants it."""
    found = {
        key: _as_wanted(f, bounds, target)
        for key, f in mod.of_kind(PrimFunc).items()
        if not is_declared(f)
    }
    return mod.with_functions(found)


def _secured_rule(rule: Any, bounds: str, where: Target) -> Any:
    """A person's own schedule rule, whose results are looked at as what a person wrote."""
    if not callable(rule) or bounds == "trust" or schedule_name(rule):
        return rule

    def looked_at(func: PrimFunc, target: Target) -> Any:
        made = rule(func, target)
        before = scheduled_by(made, func)
        after = _as_wanted(before, bounds, where)
        return made if after is before else after

    return looked_at


def _has_graph(mod: IRModule) -> bool:
    return bool(mod.of_kind(Function))


def _timed(timings: list[tuple[str, float]], name: str, step: Any, *args: Any) -> Any:
    start = time.perf_counter()
    result = step(*args)
    timings.append((name, time.perf_counter() - start))
    return result


def _pipeline_options(pipeline: Any, convolution: str) -> dict[str, Any]:
    """The options of a named pipeline; refuses a way of convolutions that it would not hear of."""
    if convolution == "auto":
        return {}
    from mlcnb.relax.transform.pipeline import CONVOLUTIONS

    if convolution not in CONVOLUTIONS:
        raise PassError(f"no convolution {convolution!r}", hint=f"one of {', '.join(CONVOLUTIONS)}")
    if not isinstance(pipeline, str):
        raise PassError(
            f"convolution={convolution!r} goes to a named pipeline, not to {pipeline!r}",
            hint="ChooseConvolution(tile_size=-1) in the pipeline, or none at all",
        )
    return {} if pipeline == "zero" else {"convolution": convolution}


def _entry(mod: IRModule) -> str:
    """The function that parameters belong to: `main`, or the only one seen from outside."""
    graphs = {key.name_hint: f for key, f in mod.of_kind(Function).items()}
    public = [n for n, f in graphs.items() if "global_symbol" in f.attrs and n[0] != "_"]
    return public[0] if "main" not in graphs and len(public) == 1 else "main"


def _bound(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """The module with these parameters of its entry as constants."""
    if not params:
        return mod
    from mlcnb.relax.transform import BindParams

    bound: IRModule = BindParams(_entry(mod), params)(mod)
    return bound


def _lower_graph(
    mod: IRModule,
    pipeline: Any,
    target: Target,
    options: Mapping[str, Any],
    keep: bool,
    work: ExitStack,
) -> IRModule:
    """Operators become calls of PrimFuncs; what is new is kept on disk until `work` ends."""
    if pipeline is None:
        return mod
    if isinstance(pipeline, str):
        return work.enter_context(Lowering(mod, pipeline, options, target, keep)).module()
    with target:
        made: IRModule = pipeline(mod)
    return made


@contextmanager
def _workers(mod: IRModule, outline: str, target: Target) -> Iterator[Workers]:
    """Processes that compile kernels beside this one: started at once for a graph that is new and
    has much to be compiled, so that they load while its passes run.
    """
    by_llvm = target.kind in ("llvm", "cuda-sim")
    with Workers(threads.default_num_threads() - 1 if by_llvm else 0) as workers:
        is_new = bool(outline) and not foresight.met(outline)
        if is_new and _products(mod) > MANY_PRODUCTS:
            workers.start()
            threads.prepare()
        yield workers
    if is_new:
        foresight.meet(outline)


@cache
def _measure_once() -> None:
    """Measure this computer's core for all that is compiled for it from now on: some seconds."""
    from mlcnb.observe.diagnosis import find_measured

    find_measured()


def _outline(mod: IRModule, target: Target) -> str:
    """The operators of a module's graphs and their sizes; "" where there are few."""
    calls = [
        f"{b.value.op.name} {static_shape(b.var.struct_info)}"
        for func in mod.of_kind(Function).values()
        for b in bindings_of(func)
        if isinstance(b.value, Call) and isinstance(b.value.op, Op)
    ]
    return "\n".join((str(target), *calls)) if len(calls) > MANY_CALLS else ""


def _products(mod: IRModule) -> int:
    """The number of different products and convolutions in a module's graphs."""
    return len(
        {
            (called(b.value), *(static_shape(x.struct_info) for x in (b.var, *b.value.args)))
            for func in mod.of_kind(Function).values()
            for b in bindings_of(func)
            if called(b.value).product
        }
    )


def _apply_records(mod: IRModule, target: Target) -> IRModule:
    """Loop functions that the current database has records of, as the best of them makes them."""
    from mlcnb.meta_schedule.database.apply import MetaScheduleApplyDatabase

    with target:
        return MetaScheduleApplyDatabase()(mod)


def _for_cpus(func: PrimFunc, target: Target) -> Any:
    """The default rules of CPUs, which are loaded when a kernel is not at hand."""
    from mlcnb.dlight.cpu import schedule_cpu

    return schedule_cpu(func, target)


def _default_rule(target: Target) -> Any:
    if target.is_cpu:
        return _for_cpus
    from mlcnb.dlight.gpu import schedule_gpu

    return schedule_gpu


def _kernels(
    mod: IRModule, target: Target, schedule: Any, workers: Workers, trusted: bool
) -> dict[str, Any]:
    """Every PrimFunc of the module, compiled."""
    funcs = {v.name_hint: f for v, f in mod.of_kind(PrimFunc).items()}
    rule = _default_rule(target) if schedule == "default" else schedule
    later = never_called(mod)
    with progress_bar("compiling kernels", len(funcs) - len(later)) as bar:
        host = {"symbols": threads.symbols(), "workers": workers, "later": later}
        host["trusted"] = trusted
        return backend_of(target.kind).build(funcs, target, rule, bar.update, **host)
