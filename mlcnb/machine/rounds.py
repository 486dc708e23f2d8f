"""The lines that some iterations of a loop touch, and which of them caches would still hold.

    for i in range(64):        round i:     A[i, 0:64]   4 lines, first touched at 0, 48, …
        for k in range(64):    round i + 1: A[i + 1, 0:64] …
            … A[i, k] …

Rounds are iterations that follow each other, at several places all over the loops around; or parts
of a program that are done one after the other. Each line of a round is told by when it is touched
first and when last: that is all by which one round can act upon the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mlcnb.machine.cache import Cache, run
from mlcnb.machine.nest import Addressed, Nest

#: bytes of a line
LINE = 64
#: places that are looked at in the loops around, and addresses in all
PLACES, POINTS = 64, 8192
#: addresses of one access in one iteration; beyond that, loops count as shorter
MOST = 1 << 14


class Rounds:
    """The lines that a few iterations of a loop touch, or parts that are done one after the other.

    Attributes:
        coarse: so many times fewer places and addresses are looked at.
        outer: the loops around.
        count: rounds that are looked at, one after the other, at each place.
        is_whole: whether these are all rounds.
        fits: of each round whether all that it touches can be in the nearest level at once.
        lines: at each place, in each round, of each array the lines that are touched.
        seen: those of them that an earlier round touched; missed: of each level those of them that
            were gone.
    """

    place: np.ndarray
    line: np.ndarray
    array: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __init__(
        self, nest: Nest, ticks: dict[int, int], arrays: int, count: int, coarse: int = 1
    ) -> None:
        self.nest, self.ticks, self.arrays, self.count = nest, ticks, arrays, count
        self.coarse = coarse
        self.outer = nest.inside[0].around[: nest.depth] if nest.inside else ()
        self.begin = nest.depth + (nest.level is not None)
        self.limits: dict[int, int] = {}
        self.merged: set[Addressed] = set()
        self.scale = np.ones(arrays)
        if nest.level is None and nest.depth == 0 and len(nest.parts) > 1:
            self._compose()
        else:
            self.each = sum(self._shortened(x) for x in nest.inside)
            self._choose()
            self._enumerate()
            self._merge()

    # -- what is looked at -----------------------------------------------------------------------

    def _inner(self, access: Addressed) -> Iterator[int]:
        """Depths of the loops inside a round that move an access."""
        return (n for n in range(self.begin, len(access.around)) if access.moving[n])

    def _shortened(self, access: Addressed) -> int:
        """Addresses of an access in a round, after loops were shortened so that they are few."""
        most = MOST // self.coarse
        many = prod(len(self._iterations(access, n)) for n in self._inner(access))
        if many > most and access.exact is None:
            different = access.different(self._trips(access))
            if different < many:  # loops overlap: an address that several iterations make is one
                self.merged.add(access)
                many = different
        for n in self._inner(access):
            trips = self._trips(access)[n]
            if many > most and trips > 2:
                short = self.limits[access.around[n].number] = max(2, trips * most // many)
                is_merged = access in self.merged
                many = access.different(self._trips(access)) if is_merged else many * short // trips
        return many

    def _trips(self, access: Addressed) -> dict[int, int]:
        """How often the loops run that move an access inside a round, some of them shortened."""
        around = {n: access.around[n] for n in self._inner(access)}
        return {n: self.limits.get(x.number, x.trips) for n, x in around.items()}

    def _iterations(self, access: Addressed, depth: int) -> np.ndarray:
        """Iterations of a loop that touch every line: of neighbours one for each line."""
        trips, each = self._trips(access)[depth], self._neighbours(access, depth)
        found = np.arange(0, trips, each)
        return found if each == 1 or found[-1] == trips - 1 else np.append(found, trips - 1)

    def _neighbours(self, access: Addressed, depth: int) -> int:
        """How many iterations of a loop can stay on a line, if it has the smallest step."""
        steps = {n: access.steps[n] for n in self._inner(access)}
        sizes = [abs(x) if isinstance(x, int) else 0 for x in steps.values()]
        mine = steps[depth]
        if not isinstance(mine, int) or not 0 < abs(mine) == min(sizes):
            return 1
        # a condition may leave some of them out
        return max(1, LINE // abs(mine) // (1 if access.exact is None else 4))

    def _choose(self) -> None:
        """Places in the loops around, and the first round and the number of rounds."""
        trips = self.nest.trips
        room = POINTS // self.coarse * (1 if self.nest.depth else 2) // max(1, self.each)
        if self.nest.level is None:
            self.count = len(self.nest.parts)
        else:
            self.count = min(trips, self.count)
        self.is_whole = self.nest.level is None or self.count == trips
        starts = 1 if self.is_whole else trips - self.count + 1
        sizes = [*(x.trips for x in self.outer), starts]
        some = min(PLACES // self.coarse, max(room // self.count, 2 if room < 2 else 5))
        if prod(sizes) <= some:
            self.places = np.array(list(product(*map(range, sizes))), np.int64)
        else:
            self.places = (_spread(some, len(sizes)) * np.array(sizes)).astype(np.int64)

    def _compose(self) -> None:
        """Parts of a whole program, each of which is enumerated once: a step changes few."""
        wholes = [_whole(part, self.arrays, self.coarse) for part in self.nest.parts]
        self.count, self.is_whole = len(wholes), True
        self.places = np.zeros((1, 1), np.int64)
        for name in ("place", "line", "array", "first", "last"):
            setattr(self, name, np.concatenate([getattr(x, name) for x in wholes]))
        self.round = np.repeat(np.arange(self.count), [len(x.line) for x in wholes])
        for whole in wholes:
            self.scale = np.maximum(self.scale, whole.scale)
            self.limits |= whole.limits
        self._merge()

    # -- the touches -----------------------------------------------------------------------------

    def _enumerate(self) -> None:
        several: list[tuple[int | None, Addressed]]
        if self.nest.level is None:
            several = [(n, x) for n, part in enumerate(self.nest.parts) for x in part.inside]
        else:
            several = [(None, x) for x in self.nest.inside]
        self.place, self.round, self.line, self.array, self.first, self.last = (
            np.concatenate(x) for x in zip(*(self._touches(x, n) for n, x in several), strict=True)
        )
        for _, access in several:
            short = self._trips(access)
            whole = access.different({n: access.around[n].trips for n in short})
            many = whole / max(1, access.different(short))
            self.scale[access.array] = max(self.scale[access.array], many)

    def _touches(self, access: Addressed, part: int | None) -> tuple[np.ndarray, ...]:
        """(place, round, line, array, first and last time in the round) of all its touches."""
        rounds = np.arange(self.count) if part is None else np.array([part])
        inner = list(self._inner(access))
        is_merged = access in self.merged
        along = None if access.exact is not None or is_merged else self._along(access, inner)
        inner = [n for n in inner if n != along and not is_merged]
        chosen = [self._iterations(access, n) for n in inner]
        kept: Any = None
        if access.exact is None:
            address = self._summed(access, rounds, inner, chosen)
        else:
            address, kept = access.exact(self._points(access, rounds, inner, chosen))
        if is_merged:
            added, first, last = access.once(self.begin, self._trips(access), self.ticks)
            address = address[:, None] + added
        else:
            first, last = self._times(access, inner, chosen, along)
        address = address.reshape(len(self.places) * len(rounds), len(first))
        if along is not None:
            address, first, last, kept = self._by_line(access, along, address, first, last)
        place, turn = (
            np.broadcast_to(x.reshape(-1, *[1] * (address.ndim - 1)), address.shape)
            for x in (
                np.repeat(np.arange(len(self.places)), len(rounds)),
                np.tile(rounds, len(self.places)),
            )
        )
        columns = [place, turn, address // LINE, np.full(address.shape, access.array)]
        columns += [np.broadcast_to(x, address.shape) for x in (first, last)]
        return tuple(x.ravel() if kept is None else x[kept.reshape(address.shape)] for x in columns)

    def _along(self, access: Addressed, inner: list[int]) -> int | None:
        """The loop that goes along lines: the smallest step, if that is forward and within one."""
        steps = {n: access.steps[n] for n in inner if isinstance(access.steps[n], int)}
        found = min(steps, key=lambda n: abs(steps[n]), default=None)
        return found if found is not None and 0 < steps[found] < LINE else None

    def _times(
        self, access: Addressed, inner: list[int], chosen: list[np.ndarray], along: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """When an iteration of the loops that move an access comes first, and when last."""
        first, last = np.array([access.at]), np.array([access.until])
        for n in range(self.begin, len(access.around)):
            level = access.around[n]
            each = self.ticks.get(level.number, 0)
            if n in inner:
                at = chosen[inner.index(n)]
                until = np.append(at[1:], self.limits.get(level.number, level.trips)) - 1
                first = (first[:, None] + at * each).ravel()
                last = (last[:, None] + until * each).ravel()
            elif n != along:
                last = last + (level.trips - 1) * each
        return first, last

    def _by_line(
        self,
        access: Addressed,
        along: int,
        address: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One touch for each line that a loop goes along, with the iterations that are on it."""
        level = access.around[along]
        trips = self.limits.get(level.number, level.trips)
        each, step = self.ticks.get(level.number, 0), access.steps[along]
        lines = np.arange((trips * step + LINE - 2) // LINE + 2) * LINE
        begins = -((address % LINE)[..., None] - lines) + step - 1
        begins = np.clip(begins // step, 0, trips)
        at, until = begins[..., :-1], begins[..., 1:] - 1
        kept = until >= at
        return (
            address[..., None] + at * step,
            first[:, None] + at * each,
            last[:, None] + until * each,
            kept,
        )

    def _summed(
        self, access: Addressed, rounds: np.ndarray, inner: list[int], chosen: list[np.ndarray]
    ) -> np.ndarray:
        """The addresses at all places and rounds, and in all iterations that were chosen."""
        address = np.full(len(self.places), access.base)
        for n in range(self.nest.depth):
            address = address + access.added(n, self.places[:, n])
        if self.nest.level is None:
            address = np.repeat(address, len(rounds))
        else:
            at = self.places[:, -1:] + rounds
            address = (address[:, None] + access.added(self.nest.depth, at)).ravel()
        for n, iterations in zip(inner, chosen, strict=True):
            address = (address[:, None] + access.added(n, iterations)).ravel()
        return address

    def _points(
        self, access: Addressed, rounds: np.ndarray, inner: list[int], chosen: list[np.ndarray]
    ) -> np.ndarray:
        """Iterations of all loops around an access, a column for each."""
        axes = np.meshgrid(
            np.arange(len(self.places)), rounds, *chosen, indexing="ij", sparse=False
        )
        points = np.zeros((axes[0].size, len(access.around)), np.int64)
        place = axes[0].ravel()
        points[:, : self.nest.depth] = self.places[place, : self.nest.depth]
        if self.nest.level is not None:
            points[:, self.nest.depth] = self.places[place, -1] + axes[1].ravel()
        for n, axis in zip(inner, axes[2:], strict=True):
            points[:, n] = axis.ravel()
        return points

    # -- what caches make of them ----------------------------------------------------------------

    def judge(self, levels: Sequence[Cache]) -> None:
        """Count the lines of each round, those seen before, and those gone since."""
        before = np.zeros(len(self.line), bool)
        before[1:] = (self.line[1:] == self.line[:-1]) & (self.place[1:] == self.place[:-1])
        self.fits = self._fitting(levels[0]) if levels else np.zeros(self.count, bool)
        self.lines = self._table(slice(None))
        self.seen = self._table(before)
        self.missed = np.zeros((len(levels), *self.lines.shape))
        gone = before
        for number, level in enumerate(levels):
            if gone.any():
                gone = gone & self._gone(level, before, len(self.places))
                self.missed[number] = self._table(gone)

    def _fitting(self, level: Cache) -> np.ndarray:
        """Of each round whether all that it touches can be in a level at once."""
        cell = (self.round * len(self.places) + self.place) * level.sets + self.line % level.sets
        most = np.bincount(cell, minlength=self.count * len(self.places) * level.sets)
        return (most.reshape(self.count, -1).max(axis=1) <= level.ways) & (not self.limits)

    def _table(self, which: Any) -> np.ndarray:
        """How many lines at each place, in each round, of each array."""
        cell = (self.place * self.count + self.round) * self.arrays + self.array
        shape = (len(self.places), self.count, self.arrays)
        found = np.bincount(cell[which], minlength=shape[0] * shape[1] * shape[2])
        return found.reshape(shape) * self.scale

    def _merge(self) -> None:
        """The touches of a line in one round become one; sorted by place, line, round."""
        low = int(self.line.min(initial=0))
        span = int(self.line.max(initial=0)) - low + 1
        key = (self.place * span + (self.line - low)) * self.count + self.round
        order = np.argsort(key)
        key = key[order]
        begins = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else order
        first, last = self.first[order], self.last[order]
        if len(key):
            first, last = np.minimum.reduceat(first, begins), np.maximum.reduceat(last, begins)
        kept = order[begins]
        self.place, self.round = self.place[kept], self.round[kept]
        self.line, self.array, self.first, self.last = (
            self.line[kept],
            self.array[kept],
            first,
            last,
        )

    def _gone(self, level: Cache, before: np.ndarray, places: int) -> np.ndarray:
        """Whether a level that sees all the rounds does not have a line any more."""
        sets = self._sets(level)
        of_set = self.line % sets + self.place * sets
        if np.bincount(of_set[~before], minlength=1).max() <= level.ways:
            return np.zeros(len(before), bool)
        # every place has sets of its own: line numbers that fall into them
        line = self.line // sets * (sets * places) + of_set
        turn = self.place * self.count + self.round
        turns, times = (
            np.concatenate([2 * turn, 2 * turn + 1]),
            np.concatenate([self.first, self.last]),
        )
        order = np.argsort(turns * (int(times.max()) + 1) + times)
        touched = run(
            Cache(level.ways * level.line * sets * places, level.ways, level.line),
            np.concatenate([line, line])[order],
        )
        missed = np.empty(len(order), bool)
        missed[order] = ~touched.is_hit
        return missed[: len(line)]

    def _sets(self, level: Cache) -> int:
        """The sets of a level; fewer where loops were shortened so that less is to be held."""
        sets = level.sets
        if self.limits:
            whole, short = (
                x.sum() / len(self.places) for x in (self.lines, self.lines / self.scale)
            )
            while sets > 1 and sets * level.ways > short / 4 and whole > 1.5 * short:
                sets, whole = sets // 2, whole / 2
        return sets


@lru_cache(1024)
def _whole(part: Nest, arrays: int, coarse: int) -> Rounds:
    """All that one part of a program touches."""
    alone = Nest(None, 0, (part,), part.inside, part.ticks)
    return Rounds(alone, ticks_of(part), arrays, 1, coarse)


def ticks_of(nest: Nest) -> dict[int, int]:
    """Number of each loop -> accesses that one iteration could make."""
    found = {} if nest.level is None else {nest.level.number: nest.ticks // max(1, nest.trips)}
    for part in nest.parts:
        found |= ticks_of(part)
    return found


def _spread(most: int, count: int) -> np.ndarray:
    """Points all over a cube of `count` dimensions, a prime number of them: a lattice of rank one
    (Korobov, 1959), which has one point in each of as many slices along every axis.
    """
    some = next(n for n in range(most, 1, -1) if all(n % d for d in range(2, n)))
    step = max(1, round(some * 0.618))
    powers = [pow(step, n, some) for n in range(count)]
    return (np.outer(np.arange(some), powers) % some + 0.5) / some
