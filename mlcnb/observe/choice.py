"""ChooseByMeasurement: each group of operators by whoever is the fastest: our kernels or a library.

choose = relax.transform.ChooseByMeasurement(("blas", "onnxruntime"))
mod = choose(mod)                    groups that a library won are calls of it, the rest stays
choose.choices                       the table: each group, what each took, who was taken

A group is what a library's pattern matches. It is timed alone, on random numbers, everybody taking
turns: our kernels as `mlcnb.compile` makes them; those of tuning records, where a database is in
use and has some; each library. A library whose results are not ours is not taken. Groups of sizes
that are not known stay as they are. Where a library is called the graph runs step by step, which is
not in the times; records win again only where the database is in use when the module is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from statistics import median
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.core.registry import LIBRARY, get_global_func
from mlcnb.driver import compile
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.memory import aligned_empty
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.meta_schedule.database import Database, MemoryDatabase
from mlcnb.observe.peers import as_list, difference
from mlcnb.relax import backend
from mlcnb.relax.analysis.struct_info import static_shape
from mlcnb.relax.analysis.variables import bindings_of, uses
from mlcnb.relax.expr import Call, Function, Op, TupleGetItem, Var
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.struct_info import TensorStructInfo, parts_of
from mlcnb.relax.transform.fuse_ops_by_pattern import (
    FuseOpsByPattern,
    FusionPattern,
    PatternCheckContext,
    add_wrapped,
)
from mlcnb.relax.transform.run_codegen import RunCodegen
from mlcnb.runtime.turns import interleaved

#: names of our own contestants
OURS, TUNED = "ours", "tuned"
#: the largest difference to our result, as a part of its largest element
TOLERANCE = 1e-3


@dataclass(frozen=True, repr=False)
class Measured(display.Shown):
    """One group.

    Attributes:
        name: its function.
        operators: what it does.
        times: how often it is called.
        seconds: the median of each contestant's calls.
        refused: why a contestant was not taken, in words.
        taken: who was.
    """

    name: str
    operators: tuple[str, ...]
    times: int
    seconds: dict[str, float]
    refused: dict[str, str]
    taken: str

    def __repr__(self) -> str:
        told = ", ".join(f"{who} {s * 1e6:.0f} us" for who, s in self.seconds.items())
        return f"{self.name} ×{self.times}: {self.taken} ({told})"


class Choices(display.Shown):
    """The groups of a module, who was measured, and who was taken: shows itself as a table."""

    def __init__(self, groups: tuple[Measured, ...]) -> None:
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Measured:
        return self.groups[index]


class ChooseByMeasurement(ModulePass):
    """Give to a library the groups of operators in which it is faster than our kernels.

    Groups are measured on random tensors of their shapes and dtypes. A group of open shapes, and
    one that a library refuses or computes otherwise, stays with our kernels; `choices` says why.
    """

    #: names of libraries, as `relax.ext.NAME` and their patterns have them
    libraries: tuple[str, ...] = ("blas",)
    #: for each group, all contestants together
    seconds: float = 0.2
    #: library -> options
    target_options: Any = None
    #: what the last run found
    choices: Any = field(init=False, default=None)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Groups first, then the measurements, then the calls."""
        patterns = [p for n in self.libraries for p in backend.get_patterns_with_prefix(f"{n}.")]
        parted = FuseOpsByPattern(patterns)(mod)
        groups = [k for k in parted if k not in mod]
        self.choices = Choices(tuple(self._measured(parted, key) for key in groups))
        taken = {c.name: c.taken for c in self.choices.groups}
        won = sum(who in self.libraries for who in taken.values())
        ctx.note(f"{won} of {len(groups)} groups go to a library")
        if not won:
            return mod
        roots = _roots(parted, set(groups))
        given = [_for(lib, p, parted, roots, taken) for p in patterns for lib in self.libraries]
        return RunCodegen(self.target_options)(FuseOpsByPattern(given, annotate_codegen=True)(mod))

    def _measured(self, mod: IRModule, key: GlobalVar) -> Measured:
        """What everybody took for one group."""
        func: Any = mod.functions[key]
        graph = [*mod.of_kind(Function).values()]
        count = sum(n == key for f in graph for n in uses(f) if isinstance(n, GlobalVar))
        operators = tuple(
            b.value.op.name
            for b in bindings_of(func)
            if isinstance(b.value, Call) and isinstance(b.value.op, Op)
        )
        args = _random(func)
        if args is None:
            why = dict.fromkeys(self.libraries, "sizes are not known")
            return Measured(key.name_hint, operators, count, {}, why, OURS)
        runs, refused = self._contestants(func, args)
        found = interleaved(runs, self.seconds)
        seconds = {name: median(taken) for name, taken in found.items()}
        taken = min(seconds, key=lambda name: seconds[name])
        return Measured(key.name_hint, operators, count, seconds, refused, taken)

    def _contestants(
        self, func: Function, args: list[Any]
    ) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
        """Who can run a group, and why others cannot."""
        alone = IRModule.make({"main": replace(func, attrs=FrozenDict(global_symbol="main"))})
        with MemoryDatabase():
            ours = compile(alone)
        expected = as_list(ours(*args))
        runs: dict[str, Callable[[], Any]] = {OURS: lambda: ours(*args)}
        refused: dict[str, str] = {}
        if Database.current() is not None:
            tuned = compile(alone)
            if any("tir.is_scheduled" in f.attrs for f in tuned.mod.functions.values()):
                runs[TUNED] = lambda: tuned(*args)
        for name in self.libraries:
            try:
                run = self._library(name, func, args)
                apart = max(map(difference, as_list(run()), expected))
            except MLCError as error:
                refused[name] = error.message
                continue
            if apart > TOLERANCE:
                refused[name] = f"its result is {apart:.1e} from ours"
            else:
                runs[name] = run
        return runs, refused

    def _library(self, name: str, func: Function, args: list[Any]) -> Callable[[], Any]:
        """A group as a library runs it, results allocated anew as in a graph."""
        table = FunctionTable()
        key = add_wrapped(table, func, "group", name)
        make = get_global_func(LIBRARY + name)
        assert make is not None
        made = make([table.functions[key]], (self.target_options or {}).get(name, {}), {})
        modules = [made] if not isinstance(made, list | tuple) else made
        run = next(m[key.name_hint] for m in modules if key.name_hint in m)
        infos: Any = func.ret_struct_info
        fields: Any = parts_of(infos)
        shapes: list[Any] = [(static_shape(f), f.dtype.numpy) for f in fields]

        def call() -> Any:
            outs = [aligned_empty(shape, kind) for shape, kind in shapes]
            run(*args, *outs)
            return tuple(outs)

        return call


def _roots(mod: IRModule, groups: set[GlobalVar]) -> dict[Var, GlobalVar]:
    """The group of each variable that is the (first) result of one."""
    found: dict[Var, GlobalVar] = {}
    for func in mod.of_kind(Function).values():
        for binding in bindings_of(func):
            value = binding.value
            if isinstance(value, Call) and value.op in groups:
                found[binding.var] = value.op
            elif isinstance(value, TupleGetItem) and value.index == 0:
                whole = found.get(value.tuple_value)  # type: ignore[call-overload]
                if whole is not None:
                    found[binding.var] = whole
    return found


def _for(
    library: str,
    pattern: FusionPattern,
    mod: IRModule,
    roots: dict[Var, GlobalVar],
    taken: dict[str, str],
) -> FusionPattern:
    """A pattern of those of its groups in which a library was taken."""

    def check(context: PatternCheckContext) -> bool:
        key = roots.get(context.value_to_bound_var[context.matched_expr])
        if key is None or taken[key.name_hint] != library:
            return False
        is_its = mod.functions[key].attrs["Composite"] == pattern.name
        return is_its and (pattern.check is None or pattern.check(context))

    what = pattern.name.partition(".")[2]
    return replace_fields(pattern, name=f"{library}.{what}", check=check)


def _random(func: Function) -> list[Any] | None:
    """Random arguments of a function; None where sizes are not known."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for param in func.params:
        info = param.struct_info
        shape = static_shape(info)
        if not isinstance(info, TensorStructInfo) or shape is None or info.dtype is None:
            return None
        found.append(rng.standard_normal(shape).astype(info.dtype.numpy))
    return found
