"""transpose: copies whose source lies along another axis than their result.

for c, hw in T.grid(136, 784):                  for c_0 in T.parallel(9):
    y[c, hw] = x[c // 16, hw, c % 16]    ->         for hw_0 in range(49):
                                                        for c_1 in T.unroll(16):
                                                            for hw_1 in T.vectorized(16): …

A tile as wide as a vector both ways is read in rows and written in columns: TransposeTile turns it
in registers. Which loops run along the source is found by trying out its index: fused, they move
through it one element at a time, in groups of a vector's lanes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.dlight.cpu.general import CHUNKS, inline_chains, spread
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.index_map import on_arrays
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore


def transpose(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one elementwise block with one load, of words, across the rows of the result."""
    inline_chains(sch, survey)
    blocks = Survey.of(sch).blocks
    if len(blocks) != 1 or not blocks[0].is_spatial or not _copies_words(blocks[0]):
        return False
    (block,) = blocks
    lanes = target.lanes("float32")
    runs = find_runs(block, lanes)
    if runs is None:
        return False
    first, last = runs
    loops = list(sch.get_loops(block.handle))
    along = sch.fuse(*loops[first:last]) if last - first > 1 else loops[first]
    across = sch.fuse(*loops[last:]) if len(loops) - last > 1 else loops[-1]
    along_0, along_1 = sch.split(along, [None, lanes])
    across_0, across_1 = sch.split(across, [None, lanes])
    outer = loops[:first]
    sch.reorder(*outer, along_0, across_0, along_1, across_1)
    sch.unroll(along_1)
    sch.vectorize(across_1)
    wide = math.prod(as_int(sch.get(loop).extent) or 1 for loop in outer) >= CHUNKS // 8
    spread(sch, outer if wide else [along_0], block.work)
    return True


def _copies_words(block: BlockInfo) -> bool:
    """One load and one store of 32-bit elements, whose axes are the indices of the result."""
    node = block.node
    loads = [n for n in walk(node.body) if isinstance(n, BufferLoad)]
    if len(loads) != 1 or not isinstance(node.body, BufferStore) or None in block.extents:
        return False
    kinds = {loads[0].buffer.dtype.bits, node.body.buffer.dtype.bits}
    axes = [axis.var for axis in node.iter_vars]
    return kinds == {32} and list(node.body.indices) == axes


#: so many groups of lanes are tried, spread over a run
GROUPS = 256


class _Places:
    """Where in its source a block reads, for indices of its result that are tried out."""

    def __init__(self, block: BlockInfo, lanes: int) -> None:
        (load,) = (n for n in walk(block.node.body) if isinstance(n, BufferLoad))
        self.load, self.lanes = load, lanes
        self.axes = [axis.var for axis in block.node.iter_vars]
        self.extents = [e or 1 for e in block.extents]

    def at(self, values: Sequence[Any]) -> np.ndarray:
        """The row-major number of the element that is read at these indices, arrays alike."""
        given = dict(zip(self.axes, values, strict=True))
        flat: Any = np.asarray(0)
        for index, dim in zip(self.load.indices, self.load.buffer.shape, strict=True):
            flat = flat * as_int(dim) + on_arrays(index, given)
        return flat

    def length(self, first: int, last: int) -> int:
        """Iterations of loops first … last - 1 together."""
        return math.prod(self.extents[first:last])

    def runs_along(self, first: int, last: int) -> bool:
        """True if loops first … last - 1, fused, read one element after the other: tried for some
        groups of lanes, and both ends of every other loop.
        """
        length = self.length(first, last)
        count = -(-length // self.lanes)
        groups = np.unique(np.linspace(0, count - 1, min(count, GROUPS)).astype(np.int64))
        fused = groups[:, None] * self.lanes + np.arange(self.lanes)
        inside = fused < length
        own = np.unravel_index(np.minimum(fused, length - 1), self.extents[first:last])
        ends = [(0,) if first <= n < last else (0, e - 1) for n, e in enumerate(self.extents)]
        for corner in itertools.islice(itertools.product(*ends), 32):
            steps = np.diff(self.at([*corner[:first], *own, *corner[last:]]), axis=1)
            if (steps[inside[:, 1:]] != 1).any():
                return False
        return True


def find_runs(block: BlockInfo, lanes: int) -> tuple[int, int] | None:
    """(first, last): loops first … last - 1 run along the source, those after it along the result.

    Of all that do, those that leave the least of their tiles empty; None where there are none, or
    where the last loop runs along both.
    """
    places, end = _Places(block, lanes), len(block.extents)
    found: dict[tuple[int, int], float] = {}
    try:
        if places.runs_along(end - 1, end):
            return None
        for last, first in itertools.combinations(range(end - 1, -1, -1), 2):
            if min(places.length(first, last), places.length(last, end)) > 1:
                if places.extents[last - 1] > 1 and places.runs_along(first, last):
                    found[first, last] = _fill(places.length(first, last), lanes) * _fill(
                        places.length(last, end), lanes
                    )
    except MLCError:
        return None
    best = max(found, key=lambda run: found[run], default=None)
    return best if best is not None and found[best] > 0.5 else None


def _fill(length: int, lanes: int) -> float:
    """The part of the tiles along a run that is used."""
    return length / (-(-length // lanes) * lanes)
