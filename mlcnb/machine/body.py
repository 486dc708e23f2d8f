"""What the innermost written-out loops of a place cost, by ports, latencies and registers.

for k in range(256):                          one body: 4 x 4 vectors of products
    for i in T.unroll(4):                     loads    4 broadcasts of A, 4 vectors of B
        for j in T.vectorized(64):            sums     16 vectors, which stay in registers over k
            C[i, j] += A[i, k] * B[k, j]      cycles   max(16 / 2, 8 / 2, 4 * 16 / 16) = 8

A model, as `mlcnb.machine.prediction` is one, of what that leaves out: whether sums stay in
registers, how many loads a product needs, and how long a sum waits for the one before. Its
throughputs are those of today's large cores: they say which of two programs is better, not how long
one takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from mlcnb.machine.nest import Addressed, Level, Nest, places
from mlcnb.target import Target
from mlcnb.tir.stmt import ForKind

#: vectors of work, and loads, of one cycle; cycles until a sum can be added to
WORK, LOADS, LATENCY = 2.0, 2.0, 4.0
#: vectors of work in one body from which its instructions no longer wait in the first cache
LONG, SLOWER = 256, 2.0
#: registers that are not there for sums; how soon one more than fit makes most of them wait
TAKEN, SPILLS = 4, 4


def body_cycles(nest: Nest, target: Target) -> float:
    """Cycles of all places on one core, where nothing waits for memory."""
    return sum(_place(around, target) for around in places(nest))


def _place(around: tuple[Nest, ...], target: Target) -> float:
    levels = [x.level for x in around if x.level is not None]
    first = len(levels)
    while first and levels[first - 1].loop.kind in (ForKind.VECTORIZED, ForKind.UNROLLED):
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
    if level.loop.kind is not ForKind.VECTORIZED or not lies_together:
        return level.trips
    return -(-level.trips * nbytes * 8 // target.vector_bits)
