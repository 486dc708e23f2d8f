"""roofline: what this machine can do, measured by kernels that mlcnb itself makes.

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
"""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.driver import compile
from mlcnb.machine.roofline import Level, Roofline
from mlcnb.observe.benchmark import fixed_threads, peak
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.tensor import aligned_empty
from mlcnb.runtime.threads import get_num_threads
from mlcnb.runtime.turns import clock_for
from mlcnb.target import Target

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
    _, clock = clock_for(threads, True)
    with fixed_threads(threads):
        run(x, y)
        best, end = float("inf"), time.perf_counter() + seconds
        while best == float("inf") or time.perf_counter() < end:
            start = clock()
            run(x, y)
            best = min(best, clock() - start)
    return x.nbytes * rounds / best / 1e9


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
