"""Which lines a set of strided accesses comes to.

strides (4, 16) (384, 96)      96 pieces of 64 bytes, 384 bytes apart: 96 lines
strides (384, 28) (384, 3)     30 elements 384 bytes apart: a window that moves by its stride
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from mlcnb.machine.nest import Stride


@dataclass(frozen=True)
class Footprint:
    """Pieces of `span` bytes at the points of a grid of strides; `first` is where it begins."""

    first: int
    span: int
    grid: tuple[Stride, ...]

    def lines(self, line: int) -> float:
        """Lines that are touched, as expected where the pieces do not begin at lines."""
        step = line
        for stride in (self.first, *(stride for stride, _ in self.grid)):
            step = gcd(step, stride)
        own = (self.span - min(step, self.span)) / line + 1
        return own * prod(count for _, count in self.grid)

    def elements(self) -> int:
        """Bytes that lie between the first and the last of each piece."""
        return self.span * prod(count for _, count in self.grid)

    def numbers(self, line: int) -> np.ndarray:
        """The numbers of the lines, some of them twice."""
        at = np.array([self.first], np.int64)
        for stride, count in self.grid:
            at = (at[:, None] + np.arange(count) * stride).reshape(-1)
        first, last = at // line, (at + self.span - 1) // line
        pieces = int((last - first).max()) + 1
        return np.minimum(first[:, None] + np.arange(pieces), last[:, None]).reshape(-1)


def footprint(first: int, itemsize: int, strides: Iterable[Stride], line: int) -> Footprint:
    """What an access comes to whose address moves by all of these strides."""
    lowest = first + sum(min(stride, 0) * (count - 1) for stride, count in strides)
    grid: list[Stride] = []
    span = itemsize
    for stride, count in sorted((abs(stride), count) for stride, count in strides if stride):
        if count < 2:
            continue
        if stride <= span or (stride < line and not grid):
            span += stride * (count - 1)  # no gap, or none that leaves a line out
        elif grid and stride % grid[-1][0] == 0 and stride // grid[-1][0] <= grid[-1][1]:
            inner, before = grid[-1]
            grid[-1] = (inner, before + stride // inner * (count - 1))
        else:
            grid.append((stride, count))
    return Footprint(lowest, span, tuple(grid))
