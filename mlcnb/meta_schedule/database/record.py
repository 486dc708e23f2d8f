"""Workload and TuningRecord: a loop function, and what one schedule of it took.

    record.seconds        1.2e-3, the mean of record.run_secs
    record.schedule()     the workload with the trace done on it: goes on like any other schedule

The names are TVM's (`meta_schedule.database`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.core.text import kind_of
from mlcnb.ir.json import load_json, save_json
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_text
from mlcnb.runtime.profile import count_flops
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule, Trace


@dataclass(frozen=True)
class Workload:
    """One loop function, before anything was scheduled.

    mod: a module that holds it alone; meaning: the same text for every function that computes the
    same with the same loops, whatever its own name, its variables' names and its attributes are.
    """

    mod: IRModule
    meaning: str

    @staticmethod
    def of(mod: Any) -> Workload:
        """The workload of a PrimFunc or of a module with one.

        Raises:
            MLCError: the module holds another number of functions, or one of a graph.
        """
        if isinstance(mod, PrimFunc):
            mod = IRModule.from_expr(mod)
        functions = list(mod.functions.values()) if isinstance(mod, IRModule) else []
        if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
            raise MLCError(
                f"a workload is one loop function, not {_what(mod, functions)}",
                hint="pass a PrimFunc, as mod[name] gives it",
            )
        bare = replace(functions[0], attrs=FrozenDict())
        return Workload(mod, structural_text(bare)[0])

    @property
    def name(self) -> str:
        """The function's own name, or that in the module where it has none."""
        return str(self.func.attrs.get("global_symbol") or self.entry)

    @property
    def entry(self) -> str:
        """The name by which the module holds the function."""
        (var,) = self.mod.functions
        return str(var.name_hint)

    @property
    def func(self) -> PrimFunc:
        """The loop function."""
        (func,) = self.mod.functions.values()
        return func  # type: ignore[return-value]

    def as_json(self) -> list[Any]:
        """[module as text]: see `mlcnb.ir.save_json`."""
        return [save_json(self.mod)]

    @staticmethod
    def from_json(json_obj: Any) -> Workload:
        """The workload that `as_json` wrote.

        Raises:
            ModelError: it is something else.
        """
        if not isinstance(json_obj, list) or len(json_obj) != 1 or not isinstance(json_obj[0], str):
            raise ModelError("no workload: [module as text] is expected")
        try:
            return Workload.of(load_json(json_obj[0]))
        except ModelError:
            raise
        except MLCError as error:
            raise ModelError(f"no workload: {error}") from error

    @cached_property
    def flops(self) -> int | None:
        """Floating-point operations of one run; None where they cannot be counted."""
        return count_flops(self.func, {})


def _what(mod: Any, functions: Sequence[Any]) -> str:
    if not isinstance(mod, IRModule):
        return kind_of(mod)
    return "a function of a graph" if len(functions) == 1 else f"{len(functions)} functions"


class TuningRecord(display.Shown):
    """A schedule of a workload, and the seconds that its runs took.

    Args:
        trace: the steps, as `sch.trace`; or JSON that `Trace.as_json` gave.
        workload: what they are steps of.
        run_secs: seconds of each run; None or empty where it was not or could not be run.
        target: what it was measured on.
    """

    def __init__(
        self,
        trace: Trace | list[Any],
        workload: Workload,
        run_secs: Sequence[float] | None = None,
        target: Any = None,
    ) -> None:
        self.workload = workload
        self.run_secs = tuple(float(s) for s in run_secs or ())
        self.target = None if target is None else Target(target)
        self._trace = trace
        if any(not (math.isfinite(s) and s > 0) for s in self.run_secs):
            raise MLCError(
                "a run takes a positive number of seconds, not "
                f"{', '.join(map(str, self.run_secs))}",
                hint="leave run_secs out where a schedule could not be run",
            )

    @property
    def seconds(self) -> float | None:
        """The mean of the runs; None where there were none."""
        return statistics.fmean(self.run_secs) if self.run_secs else None

    @property
    def gflops(self) -> float | None:
        """10^9 floating-point operations a second."""
        work = self.workload.flops
        return work / self.seconds / 1e9 if work and self.seconds else None

    @cached_property
    def trace(self) -> Trace:
        """The steps."""
        return self._trace if isinstance(self._trace, Trace) else self.schedule().trace

    def schedule(self) -> Schedule:
        """A new schedule of the workload with the steps done.

        Raises:
            ScheduleError: the trace is none, or a step is not legal (any more).
        """
        sch = Schedule(self.workload.mod)
        sch.work_on(self.workload.entry)
        if isinstance(self._trace, Trace):
            self._trace.apply_to_schedule(sch)
        else:
            Trace.apply_json_to_schedule(self._trace, sch)
        return sch

    def __len__(self) -> int:
        """How many steps the trace has; they are not done for it."""
        return len(self._trace if isinstance(self._trace, Trace) else self._trace[0])

    def as_json(self) -> list[Any]:
        """[trace, run_secs, target, arguments], the arguments as ["TENSOR", dtype, shape]."""
        steps = self._trace.as_json() if isinstance(self._trace, Trace) else self._trace
        target = None if self.target is None else str(self.target)
        return [steps, list(self.run_secs) or None, target, arguments(self.workload.func)]

    @staticmethod
    def from_json(json_obj: Any, workload: Workload) -> TuningRecord:
        """The record that `as_json` wrote.

        Raises:
            ModelError: it is something else.
        """
        try:
            (insts, decisions), run_secs, target, _arguments = json_obj
            return TuningRecord([list(insts), list(decisions)], workload, run_secs, target)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"no tuning record: {error}", hint="[trace, run_secs, target, arguments]"
            ) from error
        except MLCError as error:
            raise ModelError(f"no tuning record: {error}") from error


def arguments(func: PrimFunc) -> list[list[Any]]:
    """["TENSOR", dtype, shape] of each buffer, ["SCALAR", dtype] of each number."""
    made: list[list[Any]] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            made.append(["SCALAR", str(param.dtype)])
        else:
            shape = [s.value if hasattr(s, "value") else str(s) for s in buffer.shape]
            made.append(["TENSOR", str(buffer.dtype), shape])
    return made
