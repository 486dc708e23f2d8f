"""rows: softmax, normalisations, sums: what is reduced along rows, and used along them again.

for i, k: high[i] = max(high[i], x[i, k])       for i in T.parallel(…):
for i, k: e[i, k] = exp(x[i, k] - high[i])          for k_0: 4 vectors of maxima; 64 -> 16 -> 8 …
for i, k: total[i] += e[i, k]            ->         for k_0: e[…], a vector at a time
for i, k: y[i, k] = e[i, k] / total[i]              for k_0: 4 vectors of sums; 64 -> 16 -> 8 …
                                                    for k_0: y[…], a vector at a time

A row stays in the cache from the first block to the last, which asks for the next one. Its sum is
one of partial sums, in the lanes of several vectors, which are then added up in halves (`rfactor`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.reading import of
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.cpu.tiles import overlap
from mlcnb.dlight.decide import decide, either
from mlcnb.dlight.looking import tree
from mlcnb.dlight.survey import BlockInfo, Survey, loop_kinds
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferRegion
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import ForKind, IterType, IterVar
from mlcnb.tir.transform.inject_prefetch import PRAGMA as PREFETCH
from mlcnb.tir.transform.overlap_tiles import PRAGMA as OVERLAP

#: vectors of partial results, so that one addition need not wait for the one before
WAYS = 4
#: a length that stands for an open one
OPEN = 4096


def rows(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply where all reductions run along the same rows, which lie together in memory."""
    reductions = [b for b in survey.blocks if b.is_reduction]
    if not all(b.is_reduction or b.is_spatial for b in survey.blocks):
        return False
    if not reductions or not all(is_along_row(b, target) for b in reductions):
        return False
    order: list[Any] = []
    for block in survey.blocks:
        order += in_halves(sch, block, target) if block.is_reduction else [block.handle]
    loops = row_loops(sch, order[-1], long_ones(reductions[0].spatial()))
    if loops is None or len({tuple(long_ones(b.spatial())) for b in reductions}) > 1:
        return False
    for handle in reversed(order[:-1]):
        sch.compute_at(handle, loops[-1])
        sch.set_scope(handle, 0, "local")
    taken = as_they_are_made(sch, order, len(loops), target)
    for handle in order:
        if handle not in taken:
            in_vectors(sch, handle, len(loops), target)
    ask_for_next_row(sch, order, len(loops), reductions[0].reduced(), target)
    spread(sch, loops, sum(b.work for b in survey.blocks))
    return True


def ask_for_next_row(
    sch: Schedule, order: list[Any], depth: int, row: list[int | None], target: Target
) -> None:
    """While the last block that reads a row works on it, the next one comes to the first cache.

    Else it would come all at once, and the first block, which has little to do, would wait for it.
    """
    first = sch.get(order[0])
    source = next((r.buffer for r in first.reads if r.buffer is not first.writes[0].buffer), None)
    if source is None or None in row:
        return
    if 2 * elements(row) * source.dtype.nbytes > target.caches[0]:
        return
    readers = [b for b in order if source in [r.buffer for r in sch.get(b).reads]]
    steps = [x for x in sch.get_loops(readers[-1])[depth:] if sch.get(x).kind is ForKind.SERIAL]
    if len(readers) > 1 and steps and either("next row asked for", True):
        sch.annotate(steps[-1], PREFETCH, [source.data.name, elements(row)])


def one_along_row(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """Schedule one reduction of several that do not run along the same rows; False: it is none."""
    if not is_along_row(block, target) or not long_ones(block.spatial()):
        return False
    *steps, last = in_halves(sch, block, target)
    loops = row_loops(sch, last, long_ones(block.spatial()))
    assert loops is not None, "its own loops are its axes"
    for handle in reversed(steps):
        sch.compute_at(handle, loops[-1])
        sch.set_scope(handle, 0, "local")
    for handle in (*steps, last):
        in_vectors(sch, handle, len(loops), target)
    spread(sch, loops, block.work)
    return True


def is_along_row(block: BlockInfo, target: Target) -> bool:
    """The reduce axes come last, the last one runs along memory; a row fills a vector."""
    extents = block.reduced()
    if elements(extents) < lanes_of(block.node, target) or "S" in block.kinds.lstrip("S"):
        return False
    last, own = block.node.iter_vars[-1].var, [w.buffer for w in block.node.writes]
    reads = [r for r in block.node.reads if r.region and r.buffer not in own]
    return len(own) == 1 and any(r.region[-1].min is last for r in reads)


def elements(extents: list[int | None]) -> int:
    """How many there are; as if there were many where that is open."""
    return math.prod(OPEN if e is None else e for e in extents)


def lanes_of(node: Any, target: Target) -> int:
    """Results of a block that a vector holds; of half precision as many as of float32, in which it
    is computed."""
    kind = node.writes[0].buffer.dtype
    return target.lanes("float32" if kind.is_float and kind.bits < 32 else str(kind))


def in_halves(sch: Schedule, block: BlockInfo, target: Target) -> list[Any]:
    """The reduction in steps: to some vectors of partial results, to one, to half of it … to 2.

    Of several reduce axes the last ones become one, as many as it takes to fill the vectors.
    """
    lanes = lanes_of(block.node, target)
    count = 1
    while count < len(block.reduced()) and not fills(block, count, WAYS * lanes):
        if elements(block.extents[-count:]) >= lanes and not lies_together(block, count + 1):
            break
        count += 1
    together = sch.get_loops(block.handle)[-count:]
    row = sch.fuse(*together) if count > 1 else together[0]
    own = WAYS if elements(block.extents[-count:]) >= WAYS * lanes else 1
    ways = decide("partial sums", (own, 1, 2, 4, 8))
    return halves(sch, block, row, ways * lanes, lanes)


def fills(block: BlockInfo, count: int, lanes: int) -> bool:
    """Whether the last axes are long enough by themselves: an open one is, where what it and the
    one before it run over does not lie together in memory.
    """
    few = elements(block.extents[-count:]) < lanes
    return not few and (None not in block.extents[-count:] or not lies_together(block, count + 1))


def lies_together(block: BlockInfo, count: int) -> bool:
    """Whether all that is read by the last axes are whole ends of buffers, dimension by dimension:
    these axes as one run along memory.
    """
    own = [w.buffer for w in block.node.writes]
    reads = [r for r in block.node.reads if r.buffer not in own]
    return are_one_run(reads, block.node.iter_vars[-count:])


def are_one_run(regions: Iterable[BufferRegion], axes: Sequence[IterVar]) -> bool:
    """Whether regions that any of these axes move are whole ends of buffers along all of them."""
    wanted, count = [a.var for a in axes], len(axes)
    return all(
        [side.min for side in r.region[-count:]] == wanted
        and all(
            of(n).is_same(of(a.dom.extent))
            for n, a in zip(r.buffer.shape[-count:], axes, strict=True)
        )
        for r in regions
        if variables_of(tuple(side.min for side in r.region)) & {*wanted}
    )


def halves(sch: Schedule, block: BlockInfo, row: Any, width: int, lanes: int) -> list[Any]:
    """The loop `row` as `width` partial sums, those as a vector, that as half of it … as one."""
    steps = []
    while width > 1:
        _, part = sch.split(row, [None, width])
        steps.append(sch.rfactor(part, len(block.spatial())))
        row = sch.get_loops(block.handle)[-1]
        width = lanes if width > lanes else width // 2
    return [*steps, block.handle]


def long_ones(extents: list[int | None]) -> list[int | None]:
    """The extents that are not 1."""
    return [e for e in extents if e != 1]


def row_loops(sch: Schedule, block: Any, kept: list[int | None]) -> list[Any] | None:
    """The loops of the last block that go from row to row; None where they are others."""
    found, loops = [], list(sch.get_loops(block))
    while kept:
        if not loops:
            return None
        loop, wanted = loops.pop(0), kept[0]
        extent = as_int(sch.get(loop).extent)
        if extent != wanted and extent != 1:
            if not extent or not wanted or extent % wanted:
                return None
            loop, _ = sch.split(loop, [wanted, None])
        kept = kept if extent == 1 else kept[1:]
        found.append(loop)
    return found or [sch.add_unit_loop(loops[0] if loops else block)]


def as_they_are_made(sch: Schedule, order: list[Any], depth: int, target: Target) -> list[Any]:
    """Elements that a reduction reads at once, some vectors at a time, are given to it at once.

    for k: e[k] = exp(…)              for k_0: e[64 of them] = exp(…)
    for k: sums[k % 64] += e[k]   ->           sums[0:64] += e[64 of them]

    Gives the blocks that this was done with.
    """
    taken: list[Any] = []
    for made, summed in itertools.pairwise(order):
        inside = sch.get_loops(made)[depth:]
        if len(inside) != 1 or not _is_read_by(sch, made, summed):
            continue
        (row,) = inside
        width = as_int(sch.get(summed).writes[0].buffer.shape[-1]) or 1
        length = as_int(sch.get(row).extent) or 0
        if width % lanes_of(sch.get(made), target) or length <= width or length % width:
            continue
        outer, inner = sch.split(row, [None, width])
        sch.reverse_compute_at(summed, outer)
        start = sch.decompose_reduction(summed, outer)
        for block, above in ((start, depth), (made, depth + 1), (summed, depth + 1)):
            lanes = lanes_of(sch.get(block), target)
            as_vectors(sch, block, list(sch.get_loops(block)[above:]), lanes, True)
        taken += [made, summed]
    return taken


def _is_read_by(sch: Schedule, made: Any, summed: Any) -> bool:
    """True if one block, without a reduction, makes what the next one, with one, reads."""
    first, second = sch.get(made), sch.get(summed)
    kinds = {axis.iter_type for axis in first.iter_vars}
    summing = any(axis.iter_type is IterType.REDUCE for axis in second.iter_vars)
    sources = [r.buffer for r in second.reads]
    return summing and kinds == {IterType.SPATIAL} and first.writes[0].buffer in sources


def in_vectors(sch: Schedule, block: Any, depth: int, target: Target) -> None:
    """What is left of a block's loops: steps of a reduction outside, vectors inside."""
    loops = sch.get_loops(block)[depth:]
    kinds = loop_kinds(sch, block, loops)
    steps = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    along = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    lanes = lanes_of(sch.get(block), target)
    made = [block]
    if steps:
        sch.reorder(*steps, *along)
        made.append(sch.decompose_reduction(block, steps[0]))
    for each in made:
        rest = sch.get_loops(each)[depth + (len(steps) if each is block else 0) :]
        if rest:
            as_vectors(sch, each, rest, lanes, bool(steps))
    for loop in steps:
        if as_int(sch.get(loop).extent) is None:
            sch.annotate(loop, OVERLAP, True)
        if (as_int(sch.get(loop).extent) or OPEN) <= WAYS:
            sch.unroll(loop)


def as_vectors(sch: Schedule, block: Any, loops: list[Any], lanes: int, few: bool) -> None:
    """The last loop by vectors, with the one before it where that fills them; unrolled where there
    are few."""
    short = (as_int(sch.get(loops[-1]).extent) or OPEN) < lanes
    joins = len(loops) > 1 and (short or _runs_on(sch, block, loops[-2:]))
    last = sch.fuse(*loops[-2:]) if joins else loops[-1]
    if (as_int(sch.get(last).extent) or OPEN) <= lanes:
        sch.vectorize(last)
        return
    outer, lane = sch.split(last, [None, lanes])
    sch.vectorize(lane)
    if few:
        sch.unroll(outer)
    else:
        overlap(sch, outer)


def _runs_on(sch: Schedule, block: Any, loops: list[Any]) -> bool:
    """Whether two loops go on through all that a block reads and writes where they move at all; or
    it is not known which of its axes they are.
    """
    node, names = sch.get(block), [sch.get(loop).loop_var for loop in loops]
    bound = zip(tree(sch).realize(node).iter_values, node.iter_vars, strict=True)
    axes = {value: axis for value, axis in bound if value in names}
    if len(axes) < len(names):
        return True
    return are_one_run((*node.reads, *node.writes), [axes[n] for n in names])
