"""What `mlcnb.machine.locality` reads of a loop program: loops, and accesses by their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mlcnb.tir import stmt as s


class Level(NamedTuple):
    """A loop around an access: a loop of the program, or one of those that it was fused from.

    Iteration n gives the loop variable n * unit more than its least value; `number` tells the level
    from all others.
    """

    loop: s.For
    trips: int
    unit: int
    number: int


@dataclass(frozen=True, eq=False)
class Addressed:
    """One load or store by the addresses that it touches.

    Attributes:
        array: number of its array; `nbytes` of an element.
        around: the loops around it, outermost first.
        at, until: how many accesses of the program stand before it, and before the last one of its
            statement that touches the same.
        base: its address in the first iteration of all loops.
        steps: bytes that the iterations of each loop add: a number for each, or one for the next.
        exact: (iterations, a column for each loop) -> (addresses, mask or None); None where the
            steps say all.
        moving: of each loop whether it changes the address, or decides if there is an access.
    """

    array: int
    name: str
    nbytes: int
    around: tuple[Level, ...]
    at: int
    until: int
    base: int
    steps: tuple[Any, ...]
    exact: Any
    moving: tuple[bool, ...]

    def added(self, depth: int, iterations: np.ndarray) -> np.ndarray:
        """What the iterations of the loop at that depth add to the address."""
        step = self.steps[depth]
        return iterations * step if isinstance(step, int) else step[iterations]

    def different(self, trips: Mapping[int, int]) -> int:
        """How many addresses the loops at those depths make, or a few more.

        Loops whose steps overlap make the sum of what each makes, and not the product: the halo
        of A[i + j], for 32 and 5 iterations, has 36 elements.
        """
        several = prod(many for n, many in trips.items() if not isinstance(self.steps[n], int))
        apart: list[tuple[int, int]] = []  # progressions, each of a step and so many numbers
        for step, many in sorted((abs(add), trips[n]) for n, add in self._even(trips)):
            for at, (least, count) in enumerate(apart):
                if step % least == 0 and step <= least * count:
                    apart[at] = least, count + (many - 1) * (step // least)
                    break
            else:
                apart.append((step, many))
        return several * prod(count for _, count in apart)

    def _even(self, trips: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """The loops of which each iteration adds the same, and not 0, with what it adds."""
        return (
            (n, self.steps[n]) for n in trips if isinstance(self.steps[n], int) and self.steps[n]
        )

    def once(
        self, begin: int, trips: Mapping[int, int], ticks: Mapping[int, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the loops from a depth on add to the address, each number once, with when it is
        added first and when last.

        Args:
            begin: the depth.
            trips: depth of a loop that moves the access -> how often it runs.
            ticks: number of a loop -> accesses in one iteration.
        """
        found = np.array([[0], [self.at], [self.until]])
        for n in range(begin, len(self.around)):
            each = ticks.get(self.around[n].number, 0)
            if n not in trips:
                found[2] += (self.around[n].trips - 1) * each
                continue
            at = np.arange(trips[n])
            added = np.stack([self.added(n, at), at * each, at * each])
            found = _swept(found, added, isinstance(self.steps[n], int))
        return found[0], found[1], found[2]


def _swept(one: np.ndarray, added: np.ndarray, is_even: bool) -> np.ndarray:
    """What a loop makes of (addresses, first, last), where its iterations add that to each.

    Of a loop that adds the same in each iteration all but the first part are that part, moved: so
    there are never more than twice as many as differ.
    """
    done = 1 if is_even else added.shape[1]
    found = _united((one[:, :, None] + added[:, None, :done]).reshape(3, -1))
    while done < added.shape[1]:
        more = min(done, added.shape[1] - done)
        found = _united(np.hstack([found, found + added[:, more : more + 1]]))
        done += more
    return found


def _united(touches: np.ndarray) -> np.ndarray:
    """Touches of one address become one, from the first of them to the last."""
    address, first, last = touches[:, np.argsort(touches[0], kind="stable")]
    begins = np.flatnonzero(np.append(True, address[1:] != address[:-1]))
    return np.stack(
        [address[begins], np.minimum.reduceat(first, begins), np.maximum.reduceat(last, begins)]
    )


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop (its parts are done in each iteration), or parts one after the other, or accesses.

    depth: how many loops are around it; ticks: accesses that one run could make, those left out
    counted; inside: all accesses.
    """

    level: Level | None
    depth: int
    parts: tuple[Nest, ...]
    inside: tuple[Addressed, ...]
    ticks: int = field(default=0)

    @property
    def trips(self) -> int:
        """How often the parts are done."""
        return 1 if self.level is None else self.level.trips


def places(nest: Nest, around: tuple[Nest, ...] = ()) -> Iterator[tuple[Nest, ...]]:
    """For each place of accesses the nests around it, itself last."""
    chain = (*around, nest)
    if not nest.parts:
        yield chain
    for part in nest.parts:
        yield from places(part, chain)
