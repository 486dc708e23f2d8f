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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd, prod

from mlcnb.machine.locality import Access, Nest, Steps, nest_of
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc

#: bytes of a cache line; lines that share a set
LINE, WAYS = 64, 8
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

    misses: tuple[int, int, int]
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
    func: PrimFunc, target: Target | None = None, caches: tuple[int, int, int] | None = None
) -> Prediction:
    """What caches, vectors and cores of a target will make of a function.

    Args:
        func: a loop program in block form; sizes that are not known count as 64.
        target: whose caches, vectors and cores; by default this machine's.
        caches: bytes of L1, L2 and L3, where they are not the target's.
    """
    found = target if target is not None and target.is_cpu else Target("llvm")
    nest = nest_of(func)
    l1, l2, l3 = (_Cache(size).misses(nest) for size in caches or found.caches)
    around = max(_leaves(nest, ()), key=lambda chain: prod(x.trips for x in chain), default=())
    misses = (l1, min(l1, l2), min(l1, l2, l3))
    return _assessed(misses, around, found)


def _leaves(nest: Nest, around: tuple[Nest, ...]) -> Iterator[tuple[Nest, ...]]:
    """For each place of accesses the nests around it, itself last."""
    chain = (*around, nest)
    if nest.accesses or not nest.parts:
        yield chain
    for part in nest.parts:
        yield from _leaves(part, chain)


def _assessed(misses: tuple[int, int, int], around: tuple[Nest, ...], target: Target) -> Prediction:
    """The parallelism around the place where most of the work is, and the sum of it all."""
    loops = [(x.loop, x.trips) for x in around if x.loop is not None]
    steps = prod(trips for _, trips in loops)
    vectors = [(n, t) for n, (x, t) in enumerate(loops) if x.kind is s.ForKind.VECTORIZED]
    accesses = around[-1].accesses if around else ()
    at, _ = vectors[-1] if vectors else (None, 1)
    lanes = prod(t for x, t in loops if at is not None and x is loops[at][0])
    strided = () if at is None else tuple(dict.fromkeys(_strided(accesses, at)))
    tasks = prod(t for x, t in loops if x.kind is s.ForKind.PARALLEL)
    blocks = _bound(loops, "blockIdx.")
    threads = _bound(loops, "threadIdx.")
    width = 1.0 if strided else float(min(lanes, target.lanes("float32")))
    work = STEP * steps / width + sum(m * c for m, c in zip(misses, MISS, strict=True))
    cores = min(max(tasks, blocks * threads), target.num_cores)
    cycles = work / cores + TASK * tasks / cores * (tasks > 1)
    return Prediction(misses, lanes, strided, tasks, blocks, threads, steps, cycles)


def _strided(accesses: Iterable[Access], at: int) -> Iterator[str]:
    """Buffers that the vector loop at that depth reads or writes with gaps."""
    for access in accesses:
        steps = access.steps[at]
        if steps is None or any(x.stride > access.nbytes for x in steps):
            yield access.name


def _bound(loops: list[tuple[s.For, int]], axis: str) -> int:
    return prod(t for x, t in loops if (x.thread_binding or "").startswith(axis))


class _Cache:
    """Counts the lines that a cache of some size must bring, cold at first."""

    def __init__(self, size: int) -> None:
        self.lines = size // LINE
        self.sets = max(1, self.lines // WAYS)
        self._known: dict[tuple[int, int], _Footprint] = {}

    def misses(self, nest: Nest) -> int:
        """Lines brought in one run of a whole program."""
        return sum(self.brought(nest).values())

    def brought(self, nest: Nest) -> dict[object, int]:
        """Buffer -> lines brought in one run of a nest, none of them there at first."""
        if self.fits(nest):
            return self.touched(nest)
        found = dict.fromkeys((x.buffer for x in nest.accesses), 1)
        for part in nest.parts:
            for buffer, lines in self.brought(part).items():
                found[buffer] = found.get(buffer, 0) + lines
        if nest.loop is None:
            return found
        each_time = {buffer: lines * nest.trips for buffer, lines in found.items()}
        if not self.fits(nest.parts[0]):
            return each_time
        once = self.touched(nest)
        again = {x.buffer for x in nest.inside if x.comes_back[nest.depth]}
        return {b: n if b in again else min(n, once[b]) for b, n in each_time.items()}

    def touched(self, nest: Nest) -> dict[object, int]:
        """Buffer -> different lines that one run of a nest touches."""
        found: dict[object, int] = {}
        regions: dict[object, list[tuple[Access, int]]] = {}
        for access in nest.inside:
            kept = self.footprint(access, nest.depth)
            known = regions.setdefault(access.buffer, [])
            same = next(
                (n for n, x in enumerate(known) if not _apart(x[0], access, nest.depth)), -1
            )
            if same < 0:
                known.append((access, kept.lines))
            else:  # the same place, or a part of it
                known[same] = (known[same][0], max(known[same][1], kept.lines))
            found[access.buffer] = min(kept.most, sum(lines for _, lines in known))
        return found

    def fits(self, nest: Nest) -> bool:
        """True if all lines that a nest touches can be in the cache at once."""
        touched = self.touched(nest)
        sets: dict[object, int] = {}
        for access in nest.inside:
            own = self.footprint(access, nest.depth).sets
            sets[access.buffer] = max(own, sets.get(access.buffer, 0))
        room = all(lines <= sets[buffer] * WAYS for buffer, lines in touched.items())
        return room and sum(touched.values()) <= self.lines

    def footprint(self, access: Access, depth: int) -> _Footprint:
        """The lines of one access while the loops from some depth on run."""
        key = (id(access), depth)
        if key not in self._known:
            self._known[key] = _footprint(access, depth, self.sets)
        return self._known[key]


def _apart(a: Access, b: Access, depth: int) -> bool:
    """True if two accesses of a buffer surely touch other elements while the inner loops run."""
    if a.start == b.start or a.steps[depth:] != b.steps[depth:]:
        return False
    left = abs(a.start - b.start)
    steps = [x for some in a.steps[depth:] for x in some or (Steps(1, a.size),)]
    for stride, times in sorted(steps, reverse=True):
        left -= stride * min(left // max(1, stride), times - 1)
    return left >= a.nbytes


@dataclass(frozen=True)
class _Footprint:
    """How many lines, in how many sets of a cache; and the lines of the whole buffer."""

    lines: int
    sets: int
    most: int


def _footprint(access: Access, depth: int, sets: int) -> _Footprint:
    """Neighbouring steps make runs of bytes; larger steps repeat the run."""
    own = access.steps[depth:]
    most = max(1, -(-access.size // LINE))
    if any(x is None for x in own):
        return _Footprint(most, sets, most)
    run, spread, many = access.nbytes, 1, 1
    steps: list[Steps] = sorted(x for some in own for x in some or ())
    for stride, count in steps:
        if stride <= max(run, LINE):
            run += stride * (count - 1)
        else:
            many *= count
            spread *= min(count, sets * LINE // gcd(stride, sets * LINE))
    each = -(-run // LINE)
    return _Footprint(min(most, many * each), min(sets, spread * each), most)


def footprints(func: PrimFunc) -> dict[s.For, int]:
    """Loop -> bytes of the different lines that one run of it touches: what would have to fit in a
    cache for nothing to be brought twice.
    """
    found: dict[s.For, int] = {}
    cache = _Cache(LINE * WAYS)
    pending = [nest_of(func)]
    while pending:
        nest = pending.pop()
        pending += nest.parts
        if nest.loop is not None:
            found.setdefault(nest.loop, LINE * sum(cache.touched(nest).values()))
    return found
