"""transpose: copies whose source lies along another axis than their result.

for c, hw in T.grid(136, 784):                  for c_0 in T.parallel(9):
    y[c, hw] = x[c // 16, hw, c % 16]    ->         for hw_0 in range(49):
                                                        for c_1 in T.unroll(16):
                                                            for hw_1 in T.vectorized(16): …

A tile as wide as a vector both ways is read in rows and written in columns: TransposeTile turns it
in registers. Which loops run along the source is found by trying out its index: fused, they move
through it one element at a time, in groups of a vector's lanes.

Where the result's last axis is shorter than a vector, as the channels of a picture are, a vector of
each channel is read, and all are stored together:

for hw, c in T.grid(784, 3):                    for hw_0 in range(49):
    y[hw, c] = x[c, hw]                  ->         for c in T.unroll(3):
                                                        for hw_1 in T.vectorized(16): …
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.elementwise import CHUNKS, elementwise, spread
from mlcnb.dlight.cpu.general import inline_chains
from mlcnb.dlight.cpu.places import Places
from mlcnb.dlight.cpu.tiles import overlap, part_used
from mlcnb.dlight.decide import decide
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform.transpose_tile import MOST_BETWEEN, MOST_TURNED, distinct, turns

#: vectors besides which one under a mask takes little time
MANY = 8
#: loads from which every lane of a vector is picked at most (`codegen.llvm.emit.picks`)
LOADS = 4
#: the parts of tiles that are used, from which on they are turned: at once, and where there is no
#: way but that and to look elements up one by one (what is left empty is not computed)
WELL_USED, LEAST_USED = 0.5, 0.1


def transpose(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one elementwise block with loads, of words or less, across the result's rows."""
    inline_chains(sch, survey)
    blocks = Survey.of(sch).blocks
    return len(blocks) == 1 and turn(sch, blocks[0], target)


def turn(sch: Schedule, block: BlockInfo, target: Target) -> bool:
    """Schedule one such block in tiles; False where it is another."""
    if not block.is_spatial or not _copies_elements(block):
        return False
    bits = block.node.body.buffer.dtype.bits  # type: ignore[attr-defined]
    lanes = target.lanes("float64" if bits == 64 else "float32")
    runs = find_runs(block, lanes)
    if runs is None and len(_loads(block)) == 1:
        if _put_between(sch, block, lanes) or (bits >= 32 and _take_apart(sch, block, lanes)):
            return True
        runs = find_runs(block, lanes, LEAST_USED)
    if runs is None:
        return False
    first, last = runs
    loops = list(sch.get_loops(block.handle))
    along = sch.fuse(*loops[first:last]) if last - first > 1 else loops[first]
    across = sch.fuse(*loops[last:]) if len(loops) - last > 1 else loops[-1]
    tall, wide = decide("tile", ((lanes, lanes), (lanes // 2, lanes), (lanes // 2, lanes // 2)))
    length = as_int(sch.get(along).extent) or tall
    along_0, along_1 = sch.split(along, [None, min(tall, length)])
    across_0, across_1 = sch.split(across, [None, wide])
    outer = loops[:first]
    sch.reorder(*outer, along_0, across_0, along_1, across_1)
    sch.unroll(along_1)
    sch.vectorize(across_1)
    overlap(sch, along_0, across_0)
    many = math.prod(as_int(sch.get(loop).extent) or 1 for loop in outer) >= CHUNKS // 8
    spread(sch, outer if many else [along_0], block.work)
    return True


def turned(sch: Schedule, copy: Any, target: Target) -> None:
    """The loops of a copy within a function, in tiles that are turned, or as they lie."""
    block = next(b for b in Survey.of(sch).blocks if b.node is sch.get(copy))
    if not turn(sch, block, target):
        elementwise(sch, block, target)


def _put_between(sch: Schedule, block: BlockInfo, lanes: int) -> bool:
    """Apply to a short last axis, where the loops before it run along the source."""
    found = _before_short(block, lanes)
    if found is None:
        return False
    first, wide = found
    loops = list(sch.get_loops(block.handle))
    along = sch.fuse(*loops[first:-1]) if len(loops) - 1 - first > 1 else loops[first]
    along_0, along_1 = sch.split(along, [None, wide])
    sch.reorder(along_0, loops[-1], along_1)
    sch.unroll(loops[-1])
    sch.vectorize(along_1)
    spread(sch, [*loops[:first], along_0], block.work)
    return True


def _take_apart(sch: Schedule, block: BlockInfo, lanes: int) -> bool:
    """Apply to the source's last axis, if that is short and the loops after it run along the rest:
    what is loaded for one of its places has all the others."""
    at = _in_short(block, lanes)
    if at is None:
        return False
    loops = list(sch.get_loops(block.handle))
    along = sch.fuse(*loops[at + 1 :]) if len(loops) - at > 2 else loops[-1]
    along_0, along_1 = sch.split(along, [None, lanes])
    sch.reorder(along_0, loops[at], along_1)
    sch.unroll(loops[at])
    sch.vectorize(along_1)
    spread(sch, [*loops[:at], along_0], block.work)
    return True


def _in_short(block: BlockInfo, lanes: int) -> int | None:
    """The loop over the source's last axis, if those after it go through the source by its size."""
    (load,) = _loads(block)
    places, end = Places(block, load, lanes), len(block.extents)
    for at, count in enumerate(places.extents[:-1]):
        length = places.length(at + 1, end)
        if places.sizes or not 2 <= count <= LOADS or (length % lanes and length < MANY * lanes):
            continue
        try:
            if places.runs_along(at, at + 1) and places.runs_along(at + 1, end, step=count):
                return at
        except MLCError:
            return None
    return None


def _before_short(block: BlockInfo, lanes: int) -> tuple[int, int] | None:
    """The first of the loops that run along the source up to the last one, which is short; and how
    many of their iterations make a vector that leaves none over, or one where there are many."""
    (load,) = _loads(block)
    places, end = Places(block, load, lanes), len(block.extents) - 1
    if end < 1 or not 2 <= places.extents[end] <= MOST_BETWEEN:
        return None
    for first in range(end):
        length = places.length(first, end)
        wide = next((n for n in (lanes, lanes // 2) if n >= 4 and length % n == 0), 0)
        wide = wide or (lanes if length >= MANY * lanes else 0)
        try:
            if wide and places.runs_along(first, end):
                return first, wide
        except MLCError:
            return None
    return None


def _loads(block: BlockInfo) -> list[BufferLoad]:
    """The loads of a block that differ."""
    return distinct(n for n in walk(block.node.body) if isinstance(n, BufferLoad))


def _copies_elements(block: BlockInfo) -> bool:
    """One load and one store, of as many bits, whose axes are the indices of the result; or a few
    loads, of which `find_runs` says whether they lie alike.
    """
    node, loads = block.node, _loads(block)
    if not loads or not isinstance(node.body, BufferStore):
        return False
    axes = [axis.var for axis in node.iter_vars]
    alike = len(loads) > 1 or _can_turn(loads[0], node.body)
    return alike and list(node.body.indices) == axes


def _can_turn(load: BufferLoad, store: BufferStore) -> bool:
    kinds = (load.buffer.dtype, store.buffer.dtype)
    return len({k.bits for k in kinds}) == 1 and all(map(turns, kinds))


def find_runs(block: BlockInfo, lanes: int, used: float = WELL_USED) -> tuple[int, int] | None:
    """(first, last): loops first … last - 1 run along the source, those after it along the result.

    Of all that do, those that leave the least of their tiles empty; None where there are none, or
    where less of them than `used` is filled, or the last loop runs along both.
    """
    each, end = [Places(block, load, lanes) for load in _loads(block)], len(block.extents)
    places, found = each[0], dict[tuple[int, int], float]()
    try:
        if len(each) > 1:
            return _common_run(block, each, lanes, used)
        if places.runs_along(end - 1, end):
            return None
        for last, first in itertools.combinations(range(end - 1, -1, -1), 2):
            if min(places.length(first, last), places.length(last, end)) > 1:
                if places.sizes and not places.runs_along(last, end, step=None):
                    continue  # each row would be looked up by divisions
                if places.extents[last - 1] > 1 and places.runs_along(first, last):
                    found[first, last] = part_used(places.length(first, last), lanes) * part_used(
                        places.length(last, end), lanes
                    )
    except MLCError:
        return None
    best = max(found, key=lambda run: found[run], default=None)
    return best if best is not None and found[best] > used else None


def _common_run(
    block: BlockInfo, each: Sequence[Places], lanes: int, used: float
) -> tuple[int, int] | None:
    """The same of several loads: some lie alike, and the others stay where they are along the
    result's last loops, or go along them.
    """
    end, places = len(block.extents), each[0]
    for last, first in itertools.combinations(range(end - 1, -1, -1), 2):
        filled = [part_used(places.length(*run), lanes) for run in ((first, last), (last, end))]
        if places.extents[last - 1] == 1 or filled[0] * filled[1] <= used or places.sizes:
            continue
        rest = [x for x in each if not any(x.runs_along(last, end, step) for step in (0, 1))]
        alike = all(_can_turn(x.access, block.node.body) for x in rest)  # type: ignore[arg-type]
        if 0 < len(rest) <= MOST_TURNED and alike and all(x.runs_along(first, last) for x in rest):
            return first, last
    return None
