"""In which order tiles are gone through: what comes from further away, by an order of the loops.

    for y, f, x: a tile            X's rows of y stay in L1 for all f, W passes by once for each y
    for f, y, x: a tile            W's rows of f stay, X passes by once for each f

Of each cache: from which loop inwards all that is touched fits in it; what lies outside of that
loop brings it anew, but for what does not move with the loops directly around.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlcnb.dlight.looking import Touch
from mlcnb.target import Target

#: bytes that come in a cycle from L2, L3 and memory, one behind the other
BYTES = (32, 16, 8)
#: of a cache, the part that is there for what is read again
ROOM = 0.8
#: the part of the time to bring it that arithmetic does not hide
IN_SIGHT = 0.5
#: orders that are looked at: of more loops the longest ones are put in order
MOST_LOOPS = 5


@dataclass(frozen=True)
class Tiles:
    """What is gone through.

    Attributes:
        extents: of all axes.
        tile: how far a tile goes along each axis; all of it, where it is summed up.
        touches: of what is read, and, last, of what is written.
        nbytes: of an element of each.
    """

    extents: tuple[int, ...]
    tile: tuple[int, ...]
    touches: tuple[Touch, ...]
    nbytes: tuple[int, ...]

    def best(self, axes: Sequence[int], target: Target) -> tuple[tuple[int, ...], float]:
        """The best order of loops over the tiles of `axes`, and the cycles that it leaves in sight.

        Of equal ones the first, in the order of the axes. The outermost one, whose tiles threads
        share, is none along the rows of the result if there is another.
        """
        trips = {a: -(-self.extents[a] // self.tile[a]) for a in axes}
        moved = sorted((a for a in axes if trips[a] > 1), key=lambda a: -trips[a])[:MOST_LOOPS]
        rest = tuple(a for a in axes if a not in moved)
        orders = [*itertools.permutations(sorted(moved))]
        apart = [order for order in orders if not (order and self.shares_lines(order[0]))]
        found = {order: self.cycles((*rest, *order), target) for order in apart or orders}
        order = min(found, key=lambda x: found[x])
        return (*rest, *order), found[order]

    def shares_lines(self, axis: int) -> bool:
        """Whether tiles that lie beside each other along an axis write to the same lines."""
        result = self.touches[-1]
        return any(dimension == result.rank - 1 for dimension, _ in result.moves[axis])

    def cycles(self, order: Sequence[int], target: Target) -> float:
        """Cycles to bring what is touched, in sight."""
        sizes = [
            [self.size(n, order[depth:]) for n in range(len(self.touches))]
            for depth in range(len(order) + 1)
        ]
        found = 0.0
        for cache, rate in zip(target.caches, BYTES, strict=True):
            fits = (d for d, parts in enumerate(sizes) if sum(parts) <= ROOM * cache)
            depth = next(fits, len(order))
            found += (
                sum(size * self.brought(n, order[:depth]) for n, size in enumerate(sizes[depth]))
                / rate
            )
        return IN_SIGHT * found

    def brought(self, number: int, outside: Sequence[int]) -> int:
        """How often a part is brought: the loops directly around that do not move it let it be."""
        moves = self.touches[number].moves
        last = max((n for n, a in enumerate(outside) if moves[a]), default=-1)
        return math.prod(-(-self.extents[a] // self.tile[a]) for a in outside[: last + 1])

    def size(self, number: int, inside: Sequence[int]) -> int:
        """Bytes, in whole lines, of what is touched while the loops `inside` run."""
        spans = self._spans(number, inside)
        whole = self._spans(number, range(len(self.extents)))
        run, outer = spans.pop(), whole.pop()
        while spans and run == outer:  # rows that are touched whole lie one behind the other
            run, outer = run * spans.pop(), outer * whole.pop()
        line = 64 // self.nbytes[number]
        return math.prod(spans) * (-(-run // line) * line) * self.nbytes[number]

    def _spans(self, number: int, inside: Sequence[int]) -> list[int]:
        """How far it goes in each dimension."""
        touch = self.touches[number]
        spans = [1] * max(touch.rank, 1)
        for axis, moved in enumerate(touch.moves):
            far = self.extents[axis] if axis in inside else self.tile[axis]
            for dimension, step in moved:
                spans[dimension] += (far - 1) * max(abs(step), 1)
        return spans
