"""profile: where the time goes, kernel by kernel.

    mlcnb.profile(ex, x)      a table: time, share, GFLOP/s, GB/s of each call, and how near that
                              comes to the roof

Every call is timed inside the native run, `repeat` times, and the median is shown. FLOPs are
counted from the loops of the kernel as it was before scheduling; bytes are those of its arguments,
each counted once.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.core import above, display, later
from mlcnb.core.errors import RuntimeInputError
from mlcnb.core.text import kind_of
from mlcnb.machine.roofline import Roofline
from mlcnb.runtime import kernel_call
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.graph_plan import KernelCall, Place
from mlcnb.runtime.shapes import Dims, evaluate
from mlcnb.runtime.threads import get_num_threads
from mlcnb.runtime.vm import bind_arguments
from mlcnb.tir.analysis import flops
from mlcnb.tir.function import PrimFunc


@dataclass(frozen=True)
class Row:
    """One call: binding and kernel names, median seconds, share of the total, work done.

    flops and nbytes are None where they cannot be counted.
    """

    name: str
    kernel: str
    seconds: float
    share: float
    flops: int | None
    nbytes: int | None

    @property
    def gflops(self) -> float | None:
        """10^9 floating-point operations a second."""
        return None if not self.flops or not self.seconds else self.flops / self.seconds / 1e9

    @property
    def bandwidth(self) -> float | None:
        """10^9 bytes a second."""
        return None if not self.nbytes or not self.seconds else self.nbytes / self.seconds / 1e9


_COLUMNS = ("name", "kernel", "seconds", "share", "flops", "nbytes")


@dataclass(frozen=True, repr=False)
class Profile(display.Shown):
    """The result of `profile`: a row for each call, in order; the total; the settings.

    sizes: those of symbolic variables that the kernels were compiled for; None: for any.
    roofline: of the machine, by which `of_roof` judges; None where the program was interpreted.
    """

    rows: tuple[Row, ...]
    seconds: float
    repeat: int
    threads: int
    roofline: Roofline | None = None
    sizes: Mapping[Any, int] | None = None

    @property
    def total(self) -> float:
        """Sum of the rows' seconds."""
        return sum(row.seconds for row in self.rows)

    def by_time(self) -> tuple[Row, ...]:
        """The rows, slowest first."""
        return tuple(sorted(self.rows, key=lambda row: -row.seconds))

    def by_kernel(self) -> tuple[Row, ...]:
        """A row for each kernel, its calls together, slowest first; its name says how many."""
        rows: dict[str, list[Row]] = {}
        for row in self.rows:
            rows.setdefault(row.kernel, []).append(row)
        return tuple(sorted(map(_together, rows.values()), key=lambda row: -row.seconds))

    def csv(self) -> str:
        """The calls in order as comma-separated text, a line of names first; seconds, not us."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(_COLUMNS)
        rows.writerows([getattr(row, name) for name in _COLUMNS] for row in self.rows)
        return text.getvalue()

    def json(self) -> str:
        """The calls in order, and the settings, as the text of a JSON object."""
        calls = [{name: getattr(row, name) for name in _COLUMNS} for row in self.rows]
        settings = {"seconds": self.seconds, "repeat": self.repeat, "threads": self.threads}
        return json.dumps({"calls": calls, "configuration": settings})

    def of_roof(self, row: Row) -> float | None:
        """The least time that the roofline allows for a row's work, by the time it took."""
        if self.roofline is None or row.nbytes is None:
            return None
        return self.roofline.share(row.flops or 0, row.nbytes, row.seconds)


def _together(rows: list[Row]) -> Row:
    """The calls of one kernel as one row."""
    work = [[getattr(row, name) for row in rows] for name in ("flops", "nbytes")]
    totals = [None if None in each else sum(each) for each in work]
    seconds, share = sum(r.seconds for r in rows), sum(r.share for r in rows)
    return Row(f"{len(rows)} x", rows[0].kernel, seconds, share, *totals)


def profile(
    ex: Executable, *args: Any, repeat: int = 10, roofline: Roofline | None = None, **named: Any
) -> Profile:
    """Run `ex` on inputs `repeat` times and tell the time of every kernel.

    Symbolic shapes are those of the inputs that are given.

    Args:
        ex: the executable.
        args: its inputs; `named` those by name.
        repeat: how often it is run.
        roofline: to judge by; default: this machine's, which is measured once for a process.

    Raises:
        RuntimeInputError: no executable, or inputs that do not fit.
    """
    if not isinstance(ex, Executable):
        raise RuntimeInputError(
            f"profile: {kind_of(ex)} does not run", hint="mlc.profile(mlc.compile(mod), x)"
        )
    later.finish()
    versions = ex.versions
    sizes = None if versions is None else versions.sizes_of(ex.ordered(args, named))
    if sizes is not None:
        ex(*args, **named)  # one that fails is a version no more
        sizes = versions.sizes_of(ex.ordered(args, named))
    if sizes is not None:
        args, named, ex = ex.ordered(args, named), {}, versions.of(ex.ordered(args, named))
    times: dict[int, list[float]] = {}
    whole = []
    calls: list[tuple[str, str, Any, Any]] = []
    for _ in range(repeat):
        start = time.perf_counter()
        calls = list(_timed_calls(ex, args, named))
        whole.append(time.perf_counter() - start)
        for number, (_, _, seconds, _) in enumerate(calls):
            times.setdefault(number, []).append(seconds)
    medians = [statistics.median(times[i]) for i in range(len(calls))]
    total = sum(medians) or 1.0
    rows = tuple(
        Row(name, kernel, seconds, seconds / total, *work)
        for (name, kernel, _, work), seconds in zip(calls, medians, strict=True)
    )
    if roofline is None and ex.target.kind == "llvm":
        roofline = above.ask("roofline")(get_num_threads())
    return Profile(rows, sum(medians), repeat, get_num_threads(), roofline, sizes)


def _timed_calls(ex: Executable, args: tuple[Any, ...], named: Any) -> list[tuple]:
    """(binding, kernel, seconds, (flops, bytes)) of each call of one run."""
    if isinstance(ex.mod[ex.entry], PrimFunc):
        return [_timed_kernel(ex, args, named)]
    ordered = ex.ordered(args, named)
    plans = ex.plans(ex.entry)
    if not plans.straight:
        steps = ex.vm.steps(ex.entry, *ordered)
        return [(s.name, s.kernel, s.seconds, (None, None)) for s in steps if s.kernel]
    values, dims = bind_arguments(ex.mod[ex.entry], ex.entry, ordered)
    _, timed = plans.timed(values, dims)
    return [
        (call.binding, call.kernel, nanoseconds / 1e9, work_of(ex, call))
        for call, nanoseconds in timed
    ]


def _timed_kernel(ex: Executable, args: tuple[Any, ...], named: Any) -> tuple:
    """The same for a PrimFunc, called in destination-passing style."""
    values = ex.kernel_arguments(ex.entry, args, named)
    nanoseconds, dims = kernel_call.run_timed(ex.kernels[ex.entry], values)
    nbytes = sum(v.nbytes for v in values if isinstance(v, np.ndarray))
    work = count_flops(ex.kernels[ex.entry].func, dims), nbytes
    return ex.entry, ex.entry, nanoseconds / 1e9, work


def work_of(ex: Executable, call: KernelCall) -> tuple[int | None, int]:
    """FLOPs and bytes of one call."""
    kernel = ex.kernels[call.kernel]
    nbytes = sum(
        int(np.prod(arg.shape, dtype=np.int64)) * arg.dtype.itemsize
        for arg in call.args
        if isinstance(arg, Place)
    )
    return count_flops(kernel.func, call.dims), nbytes


def count_flops(func: Any, dims: Dims) -> int | None:
    """Floating-point operations of one run of a PrimFunc, or None where they cannot be counted."""
    counted = flops(func)
    return None if counted is None else evaluate(counted, dims)
