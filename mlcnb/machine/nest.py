"""What `mlcnb.machine.locality` reads of a loop program: loops, and accesses by their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
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
