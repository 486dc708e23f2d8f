"""benchmark: programs timed side by side, in one process, in turns, on the same arrays and threads.

    mlc.benchmark({"numpy": np.matmul, "tiled": sch}, a, b, c, threads=1)

    2.15 GFLOP on 1 thread; medians of CPU time, calls in turns
    numpy   22.0 ms   97.4 GFLOP/s
    tiled   21.5 ms   99.7 GFLOP/s   1.02 x numpy

    found["tiled"].gflops   found.ratio("tiled")   found.plot(peak=mlc.peak(1))

A contestant is anything that is called with the arrays: a schedule, a PrimFunc or a module (which
are compiled first), an executable, or a function such as np.matmul that takes its output last. What
an executable of a graph returns is copied there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.driver import compile
from mlcnb.ir.module import IRModule
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.profile import count_flops
from mlcnb.runtime.threads import get_num_threads, set_num_threads
from mlcnb.runtime.turns import WALL, clock_for, interleaved
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

#: largest difference from the first contestant's result, relative to its largest element
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Timing:
    """One contestant: the median of the seconds of its calls, how many, and the work of one."""

    name: str
    seconds: float
    runs: int
    flops: int | None
    difference: float

    @property
    def gflops(self) -> float | None:
        """10^9 floating-point operations a second."""
        return self.flops / self.seconds / 1e9 if self.flops else None


@dataclass(frozen=True, repr=False)
class Benchmark(display.Shown):
    """The result of `benchmark`: a timing for each contestant, the number of threads, the clock.

    clock: "CPU time" or "wall-clock time".
    """

    timings: tuple[Timing, ...]
    threads: int
    clock: str = WALL[0]

    def __getitem__(self, name: str) -> Timing:
        for timing in self.timings:
            if timing.name == name:
                return timing
        names = ", ".join(t.name for t in self.timings)
        raise MLCError(f"benchmark: no contestant {name!r}", hint=f"there are {names}")

    def __iter__(self) -> Iterator[Timing]:
        return iter(self.timings)

    def __len__(self) -> int:
        return len(self.timings)

    def ratio(self, name: str) -> float:
        """How many times as fast as the first contestant this one is."""
        return self.timings[0].seconds / self[name].seconds

    def plot(self, peak: float | None = None, ax: Any = None) -> Any:
        """Bars of GFLOP/s (of 1/s where the work is not known), the first contestant hatched.

        Args:
            peak: GFLOP/s at which a line is drawn, as `peak()` measures it.
            ax: matplotlib axes; by default new ones.
        """
        return display.load("mlcnb.view.benchmark:bars")(self, peak, ax)  # type: ignore[call-arg]


def benchmark(
    contestants: Mapping[str, Any],
    *args: Any,
    threads: int | None = None,
    seconds: float = 1.0,
    flops: int | None = None,
) -> Benchmark:
    """Time contestants on the same arguments; the last argument is where they write.

    Contestants take turns, so that a slow moment of the machine meets them all; of each the median
    counts. One that takes longer than `seconds` for a call is timed once. Results are compared
    with the first contestant's. On one thread, what counts is the time in which this process had
    the core: on a machine that is shared with others (a Binder, say) that is the same every day.
    On several it is the time on the wall, since threads that wait take time of a core as well.

    Args:
        contestants: name -> schedule, PrimFunc, IRModule, executable, or function of the arrays;
            or the Timing of an earlier benchmark, which is not run again.
        args: NumPy arrays (and numbers) of the shapes and dtypes that each takes; the last array is
            the output.
        threads: of mlcnb's loops and of NumPy's BLAS while this runs; default: as set.
        seconds: about how long to measure.
        flops: work of one call; default: counted from the first contestant that has loops.

    Raises:
        MLCError: no contestants, or results that differ by more than rounding.
    """
    earlier = {name: given for name, given in contestants.items() if isinstance(given, Timing)}
    if len(contestants) == len(earlier) or not args:
        raise MLCError("benchmark: nothing to time", hint="pass contestants and their arrays")
    ready = {name: _callable(x) for name, x in contestants.items() if name not in earlier}
    work = flops if flops is not None else _work(ready.values())
    with fixed_threads(threads):
        used = get_num_threads()
        name, clock = clock_for(used if threads is None else threads, threads is not None)
        apart, taken = _differences(ready, args, clock)
        turns = {n: partial(run, *args) for n, run in ready.items()}
        times = interleaved(turns, seconds, clock=clock, known=taken)
    made = {
        who: Timing(who, statistics.median(found), len(found), work, apart[who])
        for who, found in times.items()
    }
    shown = ({**made, **earlier}[who] for who in contestants)
    return Benchmark(
        tuple(replace(x, name=n) for n, x in zip(contestants, shown, strict=True)), used, name
    )


def _callable(given: Any) -> Callable[..., Any]:
    if isinstance(given, Schedule | PrimFunc | IRModule):
        given = compile(given)
    if isinstance(given, Executable) and not isinstance(given.mod[given.entry], PrimFunc):
        return _copying(given)
    if not callable(given):
        raise MLCError(
            f"benchmark: {kind_of(given)} cannot be run",
            hint="pass a schedule, a PrimFunc, an executable or a function",
        )
    return given


def _copying(graph: Executable) -> Callable[..., None]:
    """A graph called like a loop function: its result goes to the last array."""

    def run(*args: Any) -> None:
        np.copyto(args[-1], graph(*args[:-1]))

    return run


def _work(ready: Any) -> int | None:
    """FLOPs of the first contestant whose loops are known, where they need no sizes."""
    for run in ready:
        if isinstance(run, Executable) and isinstance(run.mod[run.entry], PrimFunc):
            return count_flops(run.mod[run.entry], {})
    return None


def _differences(
    ready: Mapping[str, Callable[..., Any]], args: tuple[Any, ...], clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, float]]:
    """How far each result is from the first one, relative to that one's largest element; and the
    seconds that each took.
    """
    out, found, taken = args[-1], {}, {}
    expected: np.ndarray | None = None
    for name, run in ready.items():
        out[...] = 0
        start = clock()
        run(*args)
        taken[name] = clock() - start
        got = np.array(out, dtype="float64")
        expected = got if expected is None else expected
        scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
        found[name] = float(np.max(np.abs(got - expected), initial=0.0)) / scale
        if not found[name] <= TOLERANCE:
            raise MLCError(
                f"benchmark: {name} computes something else than {next(iter(ready))}: the results "
                f"differ by {found[name]:.1e} of the largest element"
            )
    return found, taken


@contextmanager
def fixed_threads(threads: int | None) -> Iterator[None]:
    """So many threads for mlcnb's parallel loops and for the BLAS that NumPy calls.

    Args:
        threads: None changes nothing.

    Raises:
        MissingDependencyError: threadpoolctl is not installed.
    """
    if threads is None:
        yield
        return
    limits = _threadpoolctl().threadpool_limits
    before = get_num_threads()
    set_num_threads(threads)
    try:
        with limits(limits=threads, user_api="blas"):
            yield
    finally:
        set_num_threads(before)


def _threadpoolctl() -> Any:
    try:
        import threadpoolctl
    except ImportError:
        from mlcnb.core.errors import MissingDependencyError

        hint = "pip install 'mlcnb[lab]'"
        raise MissingDependencyError("threadpoolctl is not installed", hint=hint) from None
    return threadpoolctl


_MULTIPLY_ADDS = """
@T.prim_func
def multiply_adds(x: T.Buffer(({lanes},), "{dtype}"), y: T.Buffer(({threads},), "{dtype}")):
    for t in T.parallel({threads}):
        with T.block("chains"):
            vt = T.axis.spatial({threads}, t)
            acc = T.alloc_buffer(({chains}, {lanes}), "{dtype}", scope="local")
            for c in T.unroll({chains}):
                for l in T.vectorized({lanes}):
                    acc[c, l] = x[l]
            for n in range({steps}):
                for c in T.unroll({chains}):
                    for l in T.vectorized({lanes}):
                        acc[c, l] = acc[c, l] * x[l] + x[l]
            for c in T.unroll({chains}):
                for l in range({lanes}):
                    y[vt] = y[vt] + acc[c, l]
"""


def peak(threads: int | None = None, dtype: str = "float32", seconds: float = 0.5) -> float:
    """GFLOP/s that the multiply-add units reach when nothing is loaded or stored, measured.

    As many multiply-adds as can be under way at once, each on a register of its own: no program
    on this machine computes faster with its vectors.
    """
    used = threads or get_num_threads()
    run, flops = peak_kernel(used, dtype)
    x, y = np.full(Target("llvm").lanes(dtype), 0.5, dtype), np.zeros(used, dtype)
    return flops / fastest(run, (x, y), used, seconds) / 1e9


def fastest(run: Any, args: Sequence[Any], threads: int, seconds: float) -> float:
    """Seconds of the fastest run of a program of its own, of those that so much time allows."""
    _, clock = clock_for(threads, True)
    with fixed_threads(threads):
        run(*args)
        best, end = float("inf"), time.perf_counter() + seconds
        while best == float("inf") or time.perf_counter() < end:
            start = clock()
            run(*args)
            best = min(best, clock() - start)
    return best


def peak_kernel(
    threads: int, dtype: str, lanes: int = 0, chains: int = 0, steps: int = 100_000
) -> tuple[Executable, int]:
    """The program that `peak` runs, and its floating-point operations.

    Args:
        threads: how many work.
        dtype: of the vectors.
        lanes, chains: of a vector, and how many multiply-adds are under way; 0: whole vectors, as
            many as registers hold.
        steps: multiply-adds of each chain.
    """
    from mlcnb.script import from_source

    target = Target("llvm")
    lanes, chains = lanes or target.lanes(dtype), chains or target.vector_registers * 3 // 4
    sizes = {"lanes": lanes, "chains": chains, "steps": steps, "threads": threads}
    run = compile(from_source(_MULTIPLY_ADDS.format(dtype=dtype, **sizes)))
    return run, 2 * threads * lanes * chains * steps
