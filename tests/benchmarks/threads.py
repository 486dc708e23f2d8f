"""The thread pool: what a fork and join costs, awake and asleep, alone and beside a busy process.

    fork-join        a parallel loop whose iterations do nothing, timed one by one in native code
    after a pause    the first loop after the workers went to sleep
    beside another   the same while a process of its own keeps every core busy
    kernels          loops of a known amount of work on one thread and on all: what the pool gains
    squeezenet       a whole model, alone and beside one busy process, with ONNX Runtime in turns

Medians and 99th percentiles in microseconds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.runtime.native_graph import NativeProgram
from mlcnb.runtime.turns import interleaved
from mlcnb.target import available_cores
from tests.benchmarks.models import input_of, model_files

#: iterations of the empty loop
SIZES = (2, 8, 64)
CALLS = 20_000
#: of multiply-adds in a loop's iteration, to see from where on threads pay
WORK = (100, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class Timing:
    """One line: microseconds, the median and the 99th percentile."""

    name: str
    median: float
    p99: float

    def __str__(self) -> str:
        return f"{self.name:<52}{self.median:>10.2f}{self.p99:>10.2f}"


def run(threads: int) -> list[Timing]:
    """All timings; prints each as it comes."""
    mlc.set_num_threads(threads)
    print(f"{f'microseconds, {threads} threads':<52}{'median':>10}{'p99':>10}")
    timings = []

    def note(name: str, nanoseconds: np.ndarray) -> None:
        median, p99 = np.percentile(nanoseconds, [50, 99]) / 1e3
        timings.append(Timing(name, float(median), float(p99)))
        print(timings[-1], flush=True)

    for size in SIZES:
        note(f"fork-join, {size} empty iterations", forks(size))
    note("fork-join, 8 iterations, after a pause of 2 ms", after_pauses(8))
    with busy(available_cores()):
        note("fork-join, 8 iterations, beside busy processes", forks(8))
    for work in WORK:
        for count in (1, threads):
            mlc.set_num_threads(count)
            note(f"8 iterations of {work} multiply-adds, {count} threads", forks(8, work))
    for count in (1, threads):
        for others in (0, 1):
            with busy(others):
                for who, seconds in model(count).items():
                    where = f"{who}, {count} threads, {others} other processes"
                    note(f"squeezenet: {where}", np.array(seconds) * 1e9)
    return timings


def model(threads: int) -> dict[str, list[float]]:
    """Seconds of each run of a small model, ours and ONNX Runtime's in turns."""
    path = model_files()["squeezenet"]
    session = onnxruntime_session(path, threads)
    name, x = input_of(session)
    mlc.set_num_threads(threads)
    ex = mlc.compile(mlc.from_onnx(path), target="llvm")
    runners = {"mlcnb": lambda: ex(x), "ONNX Runtime": lambda: session.run(None, {name: x})}
    return interleaved(runners, seconds=1.5)


def loop(size: int, work: int) -> mlc.runtime.Executable:
    """A parallel loop; each iteration sums `work` numbers in a chain, or stores a zero."""
    te = mlc.te
    x = te.placeholder((max(work, 1),), name="x")
    k = te.reduce_axis((0, work), name="k")
    out = te.compute(
        (size, 16), lambda i, j: te.sum(x[k] * x[k], axis=k) if work else 0.0 * x[0], name="out"
    )
    sch = mlc.tir.Schedule(te.create_prim_func([x, out]))
    i, j = sch.get_loops("out")[:2]
    sch.parallel(i)
    sch.vectorize(j) if not work else None
    return mlc.compile(sch.mod["main"])


def forks(size: int, work: int = 0) -> np.ndarray:
    """Nanoseconds of each of many calls, one after the other in native code."""
    calls = max(50, min(CALLS, 20_000_000 // (size * 16 * max(work, 1))))
    program, _keep = program_of(size, work, calls)
    program.run()
    return program.run_timed()[1]


def after_pauses(size: int) -> np.ndarray:
    """Nanoseconds of single calls, with the workers asleep before each."""
    program, _keep = program_of(size, 0, 1)
    found = []
    for _ in range(200):
        time.sleep(0.002)
        found.append(program.run_timed()[1][0])
    return np.array(found)


def program_of(size: int, work: int, calls: int) -> tuple[NativeProgram, object]:
    """The loop, so many times over."""
    (kernel,) = loop(size, work).kernels.values()
    arrays = np.ones(max(work, 1), np.float32), np.zeros((size, 16), np.float32)
    slots = [array.ctypes.data for array in arrays]
    return NativeProgram([kernel.address] * calls, [slots] * calls, [kernel.library]), arrays


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(count)]
    time.sleep(0.2)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
