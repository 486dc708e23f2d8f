"""predict: what caches, vectors and cores will make of a loop program, by reading it.

    >>> predict(matmul, Target("llvm"))
    predicted: misses L1 2.1 M, L2 66.5 k, L3 12.3 k; 16 lanes of float32; 8 tasks

A model, not a measurement. Misses: a loop keeps what it touched from one iteration to the next
where that fits in the cache (Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991),
least recently used lines go first, and lines at a stride that is a power of two share few sets.
Vectors and tasks are those that the program asks for. Good enough to say which of two schedules is
better, and about by how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from mlcnb.ir.expr import Var
from mlcnb.machine.cache import LATENCY, LOADS, WORK, Cache, caches
from mlcnb.machine.locality import nest_of
from mlcnb.machine.nest import Addressed, Level, Nest, places
from mlcnb.machine.rounds import LINE
from mlcnb.machine.windows import Found, found
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc

#: vectors of work in one body from which its instructions no longer wait in the first cache
LONG, SLOWER = 256, 2.0
#: registers that are not there for sums; how soon one more than fit makes most of them wait
TAKEN, SPILLS = 4, 4
#: cycles of a vector of work, and what a miss of L1, L2 and L3 adds (a part is hidden by others)
STEP, MISS = 1.0, (4.0, 10.0, 40.0)
#: cycles that it costs to hand out one task
TASK = 2000.0


@dataclass(frozen=True)
class Prediction:
    """What is predicted of one function.

    Attributes:
        misses: lines that L1, L2 and L3 do not have when they are asked for.
        lanes: elements that one vector of the innermost work has; 1 where it is not vectorized.
        strided: buffers that such a vector gathers from places that do not lie together.
        tasks: pieces of the work that may run at the same time on cores.
        blocks, threads: of a GPU, where loops are bound to them; 1 where none is.
        steps: how often the innermost statement runs.
        cycles: of all that, on one machine: only to compare one schedule with another.
    """

    misses: tuple[int, ...]
    lanes: int = 1
    strided: tuple[str, ...] = ()
    tasks: int = 1
    blocks: int = 1
    threads: int = 1
    steps: int = 0
    cycles: float = 0.0

    def __repr__(self) -> str:
        misses = ", ".join(f"L{n} {count:,}" for n, count in enumerate(self.misses, 1))
        told = [f"misses {misses}", f"{self.lanes} lane{'s' if self.lanes > 1 else ''}"]
        if self.strided:
            told[-1] += f" (gathers {', '.join(self.strided)})"
        if self.blocks * self.threads > 1:
            told.append(f"{self.blocks:,} blocks of {self.threads:,} threads")
        else:
            told.append(f"{self.tasks:,} task{'s' if self.tasks > 1 else ''}")
        return f"predicted: {'; '.join(told)}"


def predict(
    func: PrimFunc, target: Target | None = None, cache: Any = None, coarse: int = 1
) -> Prediction:
    """What caches, vectors and cores of a target will make of a function.

    Args:
        func: a loop program in block form; sizes that are not known count as 64.
        target: whose caches, vectors and cores; by default this machine's.
        cache: L1, L2 and L3, where they are not the target's: see `mlcnb.machine.cache.caches`.
        coarse: so many times fewer places are looked at for misses: sooner, and less exact.
    """
    machine = cpu(target)
    levels = caches(machine if cache is None else cache)
    nest = nest_of(func)
    misses = tuple(round(n) for n in _counted(func, levels, coarse).misses)
    around = max(places(nest), key=lambda chain: prod(x.trips for x in chain), default=())
    on_gpu = target is not None and not target.is_cpu
    return _assessed(misses, around, machine, on_gpu)


def cpu(target: Target | None) -> Target:
    """A target whose caches and vectors predictions are for: this machine's, where it is no CPU."""
    return target if target is not None and target.is_cpu else Target("llvm")


def _assessed(
    misses: tuple[int, ...], around: tuple[Nest, ...], target: Target, on_gpu: bool
) -> Prediction:
    """The parallelism around the place where most of the work is, and the sum of it all: a CPU has
    no use for the threads of a GPU.
    """
    loops = [(x.level.loop, x.trips) for x in around if x.level is not None]
    steps = prod(trips for _, trips in loops)
    vectors = [(n, t) for n, (x, t) in enumerate(loops) if x.kind is s.ForKind.VECTORIZED]
    accesses = around[-1].inside if around else ()
    at, _ = vectors[-1] if vectors else (None, 1)
    lanes = prod(t for x, t in loops if at is not None and x is loops[at][0])
    strided = () if at is None else tuple(dict.fromkeys(_strided(accesses, at)))
    tasks = prod(t for x, t in loops if x.kind is s.ForKind.PARALLEL)
    blocks = _bound(loops, "blockIdx.")
    threads = _bound(loops, "threadIdx.")
    width = 1.0 if strided else float(min(lanes, target.lanes("float32")))
    work = STEP * steps / width + sum(m * c for m, c in zip(misses, MISS, strict=False))
    cores = min(max(tasks, blocks * threads if on_gpu else 1), target.num_cores)
    cycles = work / cores + TASK * tasks / cores * (tasks > 1)
    return Prediction(misses, lanes, strided, tasks, blocks, threads, steps, cycles)


def _strided(accesses: Iterable[Addressed], at: int) -> Iterator[str]:
    """Buffers that the vector loop at that depth reads or writes with gaps."""
    for access in accesses:
        step = access.steps[at]
        if access.moving[at] and not (isinstance(step, int) and abs(step) <= access.nbytes):
            yield access.name


def _bound(loops: list[tuple[s.For, int]], axis: str) -> int:
    return prod(t for x, t in loops if (x.thread_binding or "").startswith(axis))


def footprints(func: PrimFunc, target: Target | None = None) -> dict[Var, int]:
    """Variable of a loop -> bytes of the different lines that one run of it touches: what would
    have to fit in a cache of the target for nothing to be brought twice.
    """
    counted = _counted(func, caches(cpu(target)))
    return {var: round(LINE * lines) for var, lines in counted.lines.items()}


@lru_cache(256)
def _counted(func: PrimFunc, levels: tuple[Cache, ...], coarse: int = 1) -> Found:
    return found(nest_of(func), levels, coarse)


def body_cycles(func: PrimFunc, target: Target) -> float:
    """What the innermost written-out loops cost on one core, where nothing waits for memory.

        for k in range(256):                      one body: 4 x 4 vectors of products
            for i in T.unroll(4):                 loads    4 broadcasts of A, 4 vectors of B
                for j in T.vectorized(64):        sums     16 vectors, which stay in registers
                    C[i, j] += A[i, k] * B[k, j]  cycles   max(16 / 2, 8 / 2, 4 * 16 / 16) = 8

    Throughputs are those of today's large cores: good enough to say which of two programs is
    better, by whether sums stay in registers, how many loads a product needs, and how long a sum
    waits for the one before.

    Args:
        func: a loop program in block form; sizes that are not known count as 64.
        target: whose registers and vectors; a CPU, else this machine's.
    """
    machine = cpu(target)
    return sum(_bodies(around, machine) for around in places(nest_of(func)))


def _bodies(around: tuple[Nest, ...], target: Target) -> float:
    levels = [x.level for x in around if x.level is not None]
    first = len(levels)
    while first and levels[first - 1].loop.kind in (s.ForKind.VECTORIZED, s.ForKind.UNROLLED):
        first -= 1
    body, runs = levels[first:], prod(x.trips for x in levels[:first])
    return runs * _body(around[-1].inside, body, first, target)


def _body(
    accesses: Sequence[Addressed], body: Sequence[Level], first: int, target: Target
) -> float:
    """Cycles of one run of the loops from the depth `first` on."""
    size = max((x.nbytes for x in accesses), default=4)
    work = prod(_vectors(x, size, True, target) for x in body)
    times = Counter(x.array for x in accesses)
    times.update(x.array for x in accesses if x.until > x.at)  # loaded and stored, noted once
    sums, loads, traffic = 0, 0, 0.0
    for access in {x.array: x for x in accesses}.values():
        count = prod(_of(access, first + n, x, target) for n, x in enumerate(body))
        if times[access.array] < 2:
            loads += count
            continue
        sums += count
        fit = min(1.0, (target.vector_registers - TAKEN) / count) ** SPILLS
        traffic += 2 * work * (1 - fit)
        if first == 0 or _moves(access, first - 1):
            traffic += 2 * count * fit
    waits = LATENCY * work / sums if sums and not traffic else 0.0
    cycles = max(work / WORK, (loads + traffic) / LOADS, waits)
    return cycles * (SLOWER if work > LONG else 1.0)


def _of(access: Addressed, depth: int, level: Level, target: Target) -> int:
    """How many vectors of an access a loop makes of one."""
    if not _moves(access, depth):
        return 1
    step = access.steps[depth] if depth < len(access.steps) else access.nbytes
    return _vectors(level, access.nbytes, step == access.nbytes, target)


def _moves(access: Addressed, depth: int) -> bool:
    return depth < len(access.moving) and bool(access.moving[depth])


def _vectors(level: Level, nbytes: int, lies_together: bool, target: Target) -> int:
    if level.loop.kind is not s.ForKind.VECTORIZED or not lies_together:
        return level.trips
    return -(-level.trips * nbytes * 8 // target.vector_bits)
