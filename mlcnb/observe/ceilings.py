"""What this machine can do, measured by kernels that mlcnb itself makes: its roof, and its cycles.

    mlc.roofline(threads=1)         mlc.explore(mlc.replay(sch)): a schedule under the roof

    Roofline of 1 thread: 112 GFLOP/s in float32, measured
      level    holds  GB/s  compute-bound from
      L1      32 KiB   208         0.54 FLOP/B
      L2       1 MiB   107         1.05 FLOP/B
      L3      32 MiB    68         1.65 FLOP/B
      memory            27         4.16 FLOP/B

The peak is that of `mlcnb.peak`. A bandwidth is that of loads: each thread reads an array of its
own again and again and adds what it reads to sums in registers. The array is half as large as the
level, or four times as large as the last cache. The best of several calls counts.

    doctor(measure=True)            mlcnb doctor --measure

    clock                3.69 GHz
    multiply-adds        1 of 512 bits in a cycle, or 2 of 256 bits; 4.0 cycles each
    L1                   a line in 1.0 cycles in order, in 1.2 apart; 5 until an address is there
    memory               a line in 6.9 cycles in order, in 26.2 apart; 635 until an address is there

That is counted in cycles of the core, which a chain of additions takes one each of: each kernel
runs beside that chain, again and again, and the quickest of each counts. Where other programs have
the core, times of a process are its own, but caches are shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.progress import progress_bar
from mlcnb.core.text import kind_of
from mlcnb.driver import compile
from mlcnb.machine.roofline import Level, Roofline
from mlcnb.observe.benchmark import fastest, fixed_threads, peak, peak_kernel
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.tensor import aligned_empty
from mlcnb.runtime.threads import get_num_threads
from mlcnb.runtime.turns import clock_for
from mlcnb.target import Target
from mlcnb.target.measured import Measured, Reading

_STREAM = """
@T.prim_func
def stream(x: T.Buffer(({threads}, {steps}, {chains}, {lanes}), "float32"),
           y: T.Buffer(({threads},), "float32")):
    for t in T.parallel({threads}):
        with T.block("stream"):
            vt = T.axis.spatial({threads}, t)
            acc = T.alloc_buffer(({chains}, {lanes}), "float32", scope="local")
            for c in T.unroll({chains}):
                for l in T.vectorized({lanes}):
                    acc[c, l] = T.float32(0)
            for n in range({rounds}):
                for s in range({steps}):
                    for c in T.unroll({chains}):
                        for l in T.vectorized({lanes}):
                            acc[c, l] = acc[c, l] + x[vt, s, c, l]
            for c in T.unroll({chains}):
                for l in range({lanes}):
                    y[vt] = y[vt] + acc[c, l]
"""

#: bytes that one call reads, about
WORK = 128 << 20
#: no array of this size or more: a notebook's machine may have 2 GB
MOST = 192 << 20


def roofline(threads: int | None = None, seconds: float = 0.06) -> Roofline:
    """The roofline of this machine for float32, measured; the answer is kept for this process.

    Args:
        threads: how many work at once; default: as set.
        seconds: how long to measure each ceiling.

    Raises:
        MLCError: `threads` is no number.
    """
    if threads is not None and not isinstance(threads, int):
        raise MLCError(
            f"roofline: threads is a number, not {kind_of(threads)}",
            hint="mlc.explore(mlc.replay(sch)) shows a schedule under the roof, step by step",
        )
    return _measured(threads or get_num_threads(), seconds)


@lru_cache(maxsize=16)
def _measured(used: int, seconds: float) -> Roofline:
    names = ("L1", "L2", "L3")
    sizes = Target("llvm").caches
    # the first two are each core's own, the last is shared
    held = [sizes[0] * used, sizes[1] * used, sizes[2]]
    levels = [
        Level(name, size, bandwidth(size // 2, used, seconds))
        for name, size in zip(names, held, strict=True)
    ]
    levels.append(Level("memory", None, bandwidth(min(4 * sizes[2], MOST), used, seconds)))
    return Roofline(peak(used, seconds=3 * seconds), tuple(levels), used)


def bandwidth(nbytes: int, threads: int, seconds: float = 0.1) -> float:
    """10^9 bytes a second that `threads` load together, from `nbytes` in all."""
    run, shape, rounds = stream_kernel(nbytes, threads)
    x, y = aligned_empty(shape, np.dtype("float32")), np.zeros(threads, "float32")
    x.fill(1)  # memory that was never written to is one page of zeros, again and again
    return x.nbytes * rounds / fastest(run, (x, y), threads, seconds) / 1e9


def stream_kernel(nbytes: int, threads: int) -> tuple[Executable, tuple[int, ...], int]:
    """The program that `bandwidth` runs, the shape of its array, and how often that is read."""
    from mlcnb.script import from_source

    target = Target("llvm")
    lanes, chains = target.lanes("float32"), target.vector_registers * 3 // 4
    steps = max(1, nbytes // (threads * chains * lanes * 4))
    rounds = max(1, WORK // nbytes)
    sizes = {"threads": threads, "steps": steps, "chains": chains, "lanes": lanes}
    run = compile(from_source(_STREAM.format(rounds=rounds, **sizes)))
    return run, (threads, steps, chains, lanes), rounds


# cycles -----------------------------------------------------------------------------------------

#: each operation needs the one before, and no compiler can join two of them
_CHAIN = """
@T.prim_func
def chain(a: T.Buffer((2,), "int64"), y: T.Buffer((1,), "int64")):
    with T.block("chain"):
        acc = T.alloc_buffer((1,), "int64", scope="local")
        acc[0] = a[0]
        for n in range({steps}):
            for u in T.unroll(32):
                acc[0] = T.bitwise_xor(acc[0] + a[0], a[1])
        y[0] = acc[0]
"""
#: a line of each row after the other, and then the next of each: columns of a matrix
_LINES = """
@T.prim_func
def lines(px: T.handle, y: T.Buffer((16,), "float32"), rounds: T.int32):
    rows, columns = T.int32(), T.int32()
    x = T.match_buffer(px, (rows, columns, 16), "float32")
    with T.block("sums"):
        acc = T.alloc_buffer(({chains}, 16), "float32", scope="local")
        for c in T.unroll({chains}):
            for l in T.vectorized(16):
                acc[c, l] = T.float32(0)
        for n in range(rounds):
            for s in range(columns):
                for r in range(rows // {chains}):
                    for c in T.unroll({chains}):
                        for l in T.vectorized(16):
                            acc[c, l] = acc[c, l] + x[r * {chains} + c, s, l]
        for c in T.unroll({chains}):
            for l in T.vectorized(16):
                y[l] = y[l] + acc[c, l]
"""
_ADDRESSES = """
@T.prim_func
def addresses(px: T.handle, y: T.Buffer((1,), "int64"), steps: T.int32):
    words = T.int32()
    x = T.match_buffer(px, (words,), "int64")
    with T.block("chain"):
        acc = T.alloc_buffer((1,), "int64", scope="local")
        acc[0] = y[0]
        for n in range(steps):
            for u in T.unroll(8):
                acc[0] = x[acc[0]]
        y[0] = acc[0]
"""
#: operations of the chain of additions: a third of a millisecond
STEPS = 20_000
#: lines between one row and the next where rows lie apart: no power of two, so all sets are used
APART = 17
#: bytes of what lies in the last level: no more where the cache is larger, of memory four caches
LAST, MOST = 8 << 20, 192 << 20
#: loads of a call, at least and at most
LOADS = (1 << 16, 1 << 18)
CHAINS = 8

Run = Callable[[], object]


def calibrate(seconds: float = 2.0) -> Measured:
    """Measure this computer's core: about `seconds`, and a second for its kernels the first time.

    Args:
        seconds: for all kernels together.
    """
    target = Target("llvm")
    lanes, chains = target.lanes("float32"), target.vector_registers * 3 // 4
    levels = list(_levels(target))
    runs = 3 + 3 * len(levels)
    with fixed_threads(1), progress_bar("measuring this CPU", runs) as bar:
        beside = _Beside(seconds / runs, bar)
        whole, half = (_units(beside, n, chains) for n in (lanes, max(1, lanes // 2)))
        latency = 1 / _units(beside, lanes, 1)
        readings = tuple(_reading(beside, name, nbytes) for name, nbytes in levels)
    return Measured(beside.gigahertz, whole, half, latency, readings)


def _levels(target: Target) -> Iterator[tuple[str, int]]:
    """What is read of each level: half of what it holds."""
    first, second, last = target.caches
    yield "L1", first // 2
    yield "L2", second // 2
    yield "L3", min(last // 2, LAST)
    yield "memory", min(4 * last, MOST)


class _Beside:
    """Cycles of other kernels, by a chain of additions that runs beside them."""

    def __init__(self, seconds: float, bar: Any) -> None:
        self.seconds = seconds
        self.bar = bar
        self.gigahertz = 0.0
        _, self.clock = clock_for(1, True)
        run = _made(_CHAIN, steps=STEPS)
        a, y = np.array([12345678901, 987654321]), np.zeros(1, np.int64)
        self._chain: Run = lambda: run(a, y)

    def cycles(self, run: Run, empty: Run | None = None) -> float:
        """Of one call, less one that does nothing: the quickest of some."""
        runs = [run, self._chain, *([empty] if empty else [])]
        best = [float("inf")] * len(runs)
        for call in runs:
            call()
        end = time.perf_counter() + self.seconds
        while best[0] == float("inf") or time.perf_counter() < end:
            for n, call in enumerate(runs):
                start = self.clock()
                call()
                best[n] = min(best[n], self.clock() - start)
        self.bar.update()
        self.gigahertz = max(self.gigahertz, STEPS * 64 / best[1] / 1e9)
        return (best[0] - sum(best[2:])) * STEPS * 64 / best[1]


def _units(beside: _Beside, lanes: int, chains: int) -> float:
    """Multiply-adds that begin in a cycle, of `chains` that do not need each other."""
    steps = LOADS[1] // chains
    run, _ = peak_kernel(1, "float32", lanes, chains, steps)
    x, y = np.full(lanes, 0.5, np.float32), np.zeros(1, np.float32)
    return steps * chains / beside.cycles(lambda: run(x, y))


def _reading(beside: _Beside, name: str, nbytes: int) -> Reading:
    in_order, apart = (_lines(beside, nbytes, columns) for columns in (1, APART))
    return Reading(name, nbytes, in_order, apart, _latency(beside, nbytes))


def _lines(beside: _Beside, nbytes: int, columns: int) -> float:
    """Cycles for a line, where `columns` lines lie between one and the next."""
    rows = max(1, nbytes // (64 * columns * CHAINS)) * CHAINS
    loads = rows * columns
    rounds = max(1, LOADS[0] // loads)
    run = _made(_LINES, chains=CHAINS)
    x, y = aligned_empty((rows, columns, 16), np.dtype(np.float32)), np.zeros(16, np.float32)
    x.fill(1)  # memory that was never written to is one page of zeros, again and again
    return beside.cycles(lambda: run(x, y, rounds), lambda: run(x, y, 0)) / (rounds * loads)


def _latency(beside: _Beside, nbytes: int) -> float:
    """Cycles until a load has brought the address of the next, which lies anywhere."""
    lines = nbytes // 64
    steps = min(max(lines, LOADS[0]), LOADS[1]) // 8
    run = _made(_ADDRESSES)
    order = np.random.default_rng(0).permutation(lines)
    x, y = aligned_empty((8 * lines,), np.dtype(np.int64)), np.zeros(1, np.int64)
    x.fill(0)
    x[8 * order] = 8 * np.roll(order, -1)
    return beside.cycles(lambda: run(x, y, steps), lambda: run(x, y, 0)) / (8 * steps)


@cache
def _made(text: str, **sizes: int) -> Executable:
    from mlcnb.script import from_source

    return compile(from_source(text.format(**sizes)), bounds="trust")
