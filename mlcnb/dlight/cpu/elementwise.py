"""elementwise: one block without a reduction. Outer loops in parallel, whole vectors inside.

for c, h, w in T.grid(24, 7, 7):                for c in T.parallel(24):
    y[c, h, w] = x[c, h, w] + b[c]       ->         for hw_0 in range(4):
                                                        for hw_1 in T.vectorized(16):
                                                            if hw_0 * 16 + hw_1 < 49: …

Where the last axis is no multiple of a vector, those before it join as far as all that is read
runs on (or stays where it is). What no vector divides ends in one that is masked: LoopPartition
keeps the mask out of the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb.arith import simplify
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.places import Places
from mlcnb.dlight.cpu.tiles import overlap, part_used
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.survey import UNKNOWN, BlockInfo
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.analysis.structure import LEAST, statements
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore, For
from mlcnb.tir.transform.transpose_tile import MOST_BETWEEN

#: less work than this is not worth waking other threads for
PARALLEL_WORK = 16 << 10
#: iterations that a parallel loop should have, so that threads share it evenly
CHUNKS = 64
#: vectors of a row that are written out, where each reads places that only it has
WRITTEN_OUT = 8
#: places at a row's ends that loops of their own fill
MOST_APART = 16
#: lanes of vectors that are stored between each other
NARROW = (16, 8, 4)
#: bytes of what is put together with others, at least
LEAST_BYTES = 12
#: whole registers that one vector takes
REGISTERS = (1, 2, 4)


def elementwise(sch: Schedule, block: BlockInfo, target: Target) -> None:
    """Vectors along the last axes, the other axes fused and in parallel."""
    loops = list(sch.get_loops(block.handle))
    if not loops:
        return
    lanes = target.lanes(str(block.node.writes[0].buffer.dtype))
    if len(loops) != len(block.extents) or not is_contiguous(block):
        spread(sch, loops[:-1] or loops, block.work)
        return
    if block.extents[-1] is None:
        first = _first_that_runs_on(block, lanes)
        before, after = _borders(sch, block) if first == len(loops) - 1 else (0, 0)
        loops[-1] = _without_ends(sch, loops[-1], before, after)
        row, vector = sch.split(_fused(sch, loops[first:]), [None, lanes])
        sch.vectorize(vector)
        overlap(sch, row)
        spread(sch, loops[:first] or [row], block.work)
        return
    if parts := _parts(block):
        wide = min((n for n in NARROW if n <= lanes), key=lambda n: (-(-parts.places // n), n))
        pieces, part = sch.split(loops[-1], [None, parts.ways])
        row, vector = sch.split(pieces, [None, wide])
        sch.reorder(row, part, vector)
        sch.unroll(part)
        sch.vectorize(vector)
        spread(sch, loops[:-1] or [row], block.work)
        return
    period = _period(block, lanes)
    if period:
        again, row = sch.split(loops[-1], [None, period])
        inner, vector = _vector_loop(sch, row, lanes)
        sch.vectorize(vector)
        spread(sch, [*loops[:-1], again], block.work)
        return
    if _turns(block) and block.extents[-1] > WRITTEN_OUT * lanes:
        before, after = _ends(block)
        if before or after:
            row, vector = sch.split(_without_ends(sch, loops[-1], before, after), [None, lanes])
            sch.vectorize(vector)
            spread(sch, loops[:-1] or [row], block.work)
            return
    first = first_in_row(block, lanes)
    row = _fused(sch, loops[first:])
    inner, vector = _vector_loop(sch, row, lanes * decide("registers of a vector", REGISTERS))
    sch.vectorize(vector)
    if inner and loops[:first] and _turns(block) and 0 < _count(sch, inner[0]) <= WRITTEN_OUT:
        sch.unroll(inner[0])
    outer = loops[:first]
    if not inner and first > 2 and block.extents[first - 1] is None:
        outer = outer[:-1]  # in one loop with others a division would find each vector
    spread(sch, outer or inner, block.work)


def _borders(sch: Schedule, block: BlockInfo) -> tuple[int, int]:
    """How many places of the last axis, at its beginning and at its end, a condition sets apart."""
    last, before, after = block.node.iter_vars[-1], 0, 0
    for n in walk(block.node.body):
        if not (isinstance(n, e.Call) and n.op == "tir.if_then_else"):
            continue
        for part in conjuncts(n.args[0]):
            match part:
                case e.LE(e.IntImm(value), v) if v is last.var:
                    before = max(before, value)
                case e.LE(v, most) if v is last.var:
                    after = max(after, as_int(simplify(last.dom.extent - most - 1)) or 0)
                case e.LT(v, end) if v is last.var:
                    after = max(after, as_int(simplify(last.dom.extent - end)) or 0)
    return (before, after) if before + after <= MOST_APART else (0, 0)


def _without_ends(sch: Schedule, loop: Any, before: int, after: int) -> Any:
    """The loop over what is left where the first and the last places have loops of their own."""
    if not before and not after:
        return loop
    factors = [*([before] if before else []), None, *([after] if after else [])]
    return sch.loop_partition(loop, factors)[1 if before else 0]


def _ends(block: BlockInfo) -> tuple[int, int]:
    """How many places of the last axis, at its beginning and at its end, are left where all that is
    read runs on between them."""
    length, start, end = block.extents[-1] or 0, 0, block.extents[-1] or 0
    for load in (n for n in walk(block.node.body) if isinstance(n, BufferLoad)):
        try:
            found = Places(block, load, 1).longest_run(len(block.extents) - 1)
        except MLCError:
            return 0, 0
        start, end = max(start, found[0]), min(end, found[1])
    before, after = start, length - end
    return (before, after) if before + after <= min(MOST_APART, length // 2) else (0, 0)


def _fused(sch: Schedule, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _first_that_runs_on(block: BlockInfo, lanes: int) -> int:
    """The last loop, or the one before it where all accesses run through both, or stay in both.

    No more: remainders of products of open sizes stay in the index.
    """
    last = len(block.extents) - 1
    if not last or not isinstance(block.node.body, BufferStore) or block.extents[last - 1] == 1:
        return last
    accesses = [n for n in walk(block.node.body) if isinstance(n, BufferLoad | BufferStore)]
    if _tested_axes(block) & {last - 1, last}:
        return last
    joined = all(_joins(block, x, lanes, last - 1, last + 1) for x in accesses)
    return last - 1 if joined else last


def _turns(block: BlockInfo) -> bool:
    """True where a read goes back or over again along the last axis: each vector has places of its
    own, which are known where the vectors are written out and are looked up one by one else.
    """
    return bool(_turning(block))


def _turning(block: BlockInfo) -> list[Any]:
    """What turns the last axis in the index of a read."""
    last, turns = block.node.iter_vars[-1].var, e.Min | e.Max | e.FloorMod | e.FloorDiv
    indices = (i for n in walk(block.node.body) if isinstance(n, BufferLoad) for i in n.indices)
    found = (n for i in indices for n in walk(i) if isinstance(n, turns))
    return [n for n in found if any(v is last for v in walk(n))]


def _period(block: BlockInfo, lanes: int) -> int:
    """After how many places of the last axis what is read begins again, and again to its end; 0
    where it does not, or not everywhere, or before a vector is full: more than half of one, where
    something else stays as long.
    """
    last, length = block.node.iter_vars[-1].var, block.extents[-1] or 0
    turning = _turning(block)
    split = e.FloorMod | e.FloorDiv
    found = {as_int(n.b) if isinstance(n, split) and n.a is last else None for n in turning}
    (period,) = found if len(found) == 1 else (None,)
    kinds = {type(n) for n in turning}
    least = lanes // 2 + 1 if e.FloorDiv in kinds else lanes
    begins = e.FloorMod in kinds and period and length % period == 0
    return period if begins and period and least <= period < length else 0


class Parts(NamedTuple):
    """Vectors that are stored between each other: how many, and how many places each has."""

    ways: int
    places: int


def _parts(block: BlockInfo) -> Parts | None:
    """What a last axis is made of that is read by its places' quotient and remainder alone, as
    where pixels are shuffled: vectors of each, which TransposeTile puts together."""
    last, length = block.node.iter_vars[-1].var, block.extents[-1] or 0
    turning = _turning(block)
    loads = [n for n in walk(block.node.body) if isinstance(n, BufferLoad)]
    sizes = {as_int(n.b) if isinstance(n, e.FloorMod | e.FloorDiv) else None for n in turning}
    (count,) = sizes if len(sizes) == 1 else (None,)
    if not count or not 2 <= count <= MOST_BETWEEN or length % count:
        return None
    alone = all(n.a is last for n in turning) and any(isinstance(n, e.FloorMod) for n in turning)
    seen = sum(v is last for n in loads for i in n.indices for v in walk(i))
    fits = alone and seen == len(turning) and last not in _tested(block)
    nbytes = block.node.writes[0].buffer.dtype.nbytes * length // count
    return Parts(count, length // count) if fits and nbytes >= LEAST_BYTES else None


def _count(sch: Schedule, loop: Any) -> int:
    """How often a loop of known extent runs."""
    return as_int(sch.get(loop).extent) or 0


def _vector_loop(sch: Schedule, loop: Any, lanes: int) -> tuple[list[Any], Any]:
    """The loop over vectors (none where one is enough), and the loop over the lanes."""
    if (as_int(sch.get(loop).extent) or 0) <= lanes:
        return [], loop
    inner, vector = sch.split(loop, [None, lanes])
    return [inner], vector


def is_contiguous(block: BlockInfo) -> bool:
    """True if the last axis is the last index of what is written."""
    if not block.node.writes or not block.node.writes[0].region:
        return False
    last = block.node.iter_vars[-1].var
    return block.node.writes[0].region[-1].min is last


def first_in_row(block: BlockInfo, lanes: int) -> int:
    """The first of the loops that are fused into a row of vectors: the last, if vectors divide it.

    Loops join as long as every access runs on through them, or does not move; they do where that
    fills the vectors better, or as well as rows that are shorter than a vector and all masked.
    """
    last = len(block.extents) - 1
    length = block.extents[-1] or 1
    stores = isinstance(block.node.body, BufferStore)
    if length % lanes == 0 or not stores or 0 in block.extents:
        return last
    accesses = [n for n in walk(block.node.body) if isinstance(n, BufferLoad | BufferStore)]
    tested = _tested_axes(block)
    if length >= lanes:
        tested |= _repeated_axes(block)
    best, most = last, part_used(length, lanes)
    for first in range(last - 1, -1, -1):
        length *= block.extents[first] or 1
        if block.extents[first] is None or tested & {*range(first, last + 1)}:
            break
        if not all(_joins(block, x, lanes, first, last + 1) for x in accesses):
            break
        short = best == last and (block.extents[-1] or 1) < lanes
        if part_used(length, lanes) > most + (-1e-9 if short else 0.02):
            best, most = first, part_used(length, lanes)
    return best


def _tested_axes(block: BlockInfo) -> set[int]:
    """Axes that a condition depends on: in a row of several, each lane would be tested."""
    tested = _tested(block)
    return {n for n, axis in enumerate(block.node.iter_vars) if axis.var in tested}


def _tested(block: BlockInfo) -> set[e.Var]:
    """Variables that a condition depends on."""
    conditions: list[Any] = []
    for n in walk(block.node.body):
        if isinstance(n, e.Select):
            conditions.append(n.condition)
        elif isinstance(n, e.Call) and n.op == "tir.if_then_else":
            conditions.append(n.args[0])
    return {n for c in conditions for n in walk(c) if isinstance(n, e.Var)}


def _repeated_axes(block: BlockInfo) -> set[int]:
    """Axes after some of which a read begins again: in a row of several, each lane would look."""
    found: set[int] = set()
    for load in (n for n in walk(block.node.body) if isinstance(n, BufferLoad)):
        told = {i.a for index in load.indices for i in walk(index) if isinstance(i, e.FloorDiv)}
        turning = {i.a for i in load.indices if isinstance(i, e.FloorMod)} - told
        found |= {n for n, axis in enumerate(block.node.iter_vars) if axis.var in turning}
    return found


def _joins(
    block: BlockInfo, access: BufferLoad | BufferStore, lanes: int, first: int, last: int
) -> bool:
    try:
        places = Places(block, access, lanes)
        return places.runs_along(first, last) or places.runs_along(first, last, step=0)
    except MLCError:
        return False


def spread(sch: Schedule, loops: list[Any], work: int) -> None:
    """Fuse loops and run them in parallel, if there is work enough."""
    while len(loops) > 1 and as_int(sch.get(loops[0]).extent) == 1:
        loops = loops[1:]
    if not loops:
        return
    opened = any(
        isinstance(n, For) and as_int(n.extent) is None for n in statements(sch.get(loops[0]))
    )
    if not either("parallel", opened or work >= PARALLEL_WORK):
        return
    extents = [as_int(sch.get(loop).extent) for loop in loops]
    loops = loops[: decide("loops in parallel", _own_first(_enough(extents), len(loops)))]
    outer = _fused(sch, loops)
    sch.parallel(outer)
    if opened:  # how much there is to do is known when it runs
        sch.annotate(outer, LEAST, PARALLEL_WORK)


def _own_first(own: int, most: int) -> tuple[int, ...]:
    return (own, *(n for n in range(1, most + 1) if n != own))


def _enough(extents: list[int | None]) -> int:
    """How many of the outer loops give the threads enough to share."""
    total = 1
    for number, extent in enumerate(extents, start=1):
        total *= UNKNOWN if extent is None else extent
        if total >= CHUNKS:
            return number
    return len(extents)
