"""Where the loops of a block move through a buffer: their index, tried out on numbers.

    y[c, h, w] = x[c // 16, h, w, c % 16]
    Places(block, load, 16).runs_along(0, 1)      c reads one element after the other, 16 times

A rule that asks cannot be wrong by the answer: every step of a schedule is proved by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import evaluate
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.dlight.survey import BlockInfo
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.stmt import BufferStore

#: an open size is tried as about so many, the first of them: no multiple of a vector
TRIED = 37
#: so many groups of lanes are tried, spread over a run
GROUPS = 256


class Places:
    """Where a block reads or writes a buffer, for indices of its result that are tried out.

    Raises:
        MLCError: from its methods, where an index is more than integer arithmetic.
    """

    def __init__(self, block: BlockInfo, access: BufferLoad | BufferStore, lanes: int) -> None:
        self.access, self.lanes = access, lanes
        self.axes = [axis.var for axis in block.node.iter_vars]
        extents = [axis.dom.extent for axis in block.node.iter_vars]
        opened = dict.fromkeys(
            n for x in (*extents, *access.buffer.shape) for n in walk(x) if isinstance(n, Var)
        )
        self.sizes = {v: np.asarray(TRIED + 4 * n) for n, v in enumerate(opened)}
        # sizes that hang together may be none, or less, for what is tried of each
        self.extents = [max(int(self.number(x)), 1) for x in extents]

    def number(self, x: Any) -> Any:
        """A size; of an open one, one that is tried."""
        known = as_int(x)
        found = evaluate(x, self.sizes, None) if known is None else known
        if found is None:
            raise MLCError(f"size {x} of {self.access.buffer.name} cannot be tried")
        return found

    def at(self, values: Sequence[Any]) -> np.ndarray:
        """The row-major number of the element at these indices, arrays alike."""
        given = {**self.sizes, **dict(zip(self.axes, values, strict=True))}
        flat: Any = np.asarray(0)
        for index, dim in zip(self.access.indices, self.access.buffer.shape, strict=True):
            size, place = self.number(dim), evaluate(index, given, None)
            if place is None:
                raise MLCError(f"where {self.access.buffer.name} is read is not known beforehand")
            flat = flat * size + place
        return flat

    def length(self, first: int, last: int) -> int:
        """Iterations of loops first … last - 1 together."""
        return math.prod(self.extents[first:last])

    def _groups(self, first: int, last: int) -> np.ndarray:
        """Groups of lanes of the fused loops: some spread over all, and the first across ends."""
        length = self.length(first, last)
        count = -(-length // self.lanes)
        spread = np.linspace(0, count - 1, min(count, GROUPS)).astype(np.int64)
        inner = [self.length(n, last) for n in range(first + 1, last)]
        across = np.outer(inner, np.arange(1, self.lanes + 1)).ravel()
        return np.unique([*spread, *(across[across < length] // self.lanes)])

    def runs_along(self, first: int, last: int, step: int | None = 1) -> bool:
        """True if loops first … last - 1, fused, go `step` elements at a time (None: as many as
        they do at first).

        Tried for some groups of lanes, those where a loop begins anew among them, and both ends
        of every other loop.
        """
        length = self.length(first, last)
        groups = self._groups(first, last)
        fused = groups[:, None] * self.lanes + np.arange(self.lanes)
        inside = fused < length
        own = np.unravel_index(np.minimum(fused, length - 1), self.extents[first:last])
        ends = [(0,) if first <= n < last else (0, e - 1) for n, e in enumerate(self.extents)]
        for corner in itertools.islice(itertools.product(*ends), 32):
            places = self.at([*corner[:first], *own, *corner[last:]])
            steps = np.diff(np.broadcast_to(places, fused.shape), axis=1)
            step = int(steps[0, 0]) if step is None else step
            if (steps[inside[:, 1:]] != step).any():
                return False
        return True

    def longest_run(self, loop: int) -> tuple[int, int]:
        """(first, end) of the most iterations of a loop that go one element at a time, or stay, the
        other loops at their beginning."""
        length = self.extents[loop]
        own = [np.arange(length) if n == loop else 0 for n in range(len(self.extents))]
        places = np.broadcast_to(self.at(own), (length,))
        steps = np.diff(places)
        best = (0, 1)
        for step in (0, 1):
            cuts = np.flatnonzero(np.concatenate([[True], steps != step, [True]]))
            widest = int(np.argmax(np.diff(cuts)))
            run = (int(cuts[widest]), int(cuts[widest + 1]))
            best = max(best, run, key=lambda r: r[1] - r[0])
        return best
