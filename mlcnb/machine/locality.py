"""Where a loop program touches memory, loop by loop: what the prediction of cache misses reads.

    for i in range(64):              A[i, k]   i: 256 bytes an iteration, k: 4
        for k in range(64):          B[k, j]   k: 256
            C[i, j] += A[i, k] * B[k, j]

An access has an address for each iteration of the loops around it. Nearly always that is a sum of
what each loop adds, and the sums are tried on a few iterations; else, and where a condition leaves
iterations out, `Addressed.exact` evaluates it. The accesses and their addresses are those of the
exact replay (`mlcnb.machine.addresses`, `touching`). A loop that indices divide (it was fused from
several) counts as the loops that it was made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.machine.addresses import UNKNOWN, Array, guessed
from mlcnb.machine.nest import Addressed, Level, Nest
from mlcnb.machine.touching import ThroughIndices, Touched, both
from mlcnb.tir import stmt as s
from mlcnb.tir.access.scope import parts
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies, heads

#: iterations of one loop that are looked at, and iterations of all loops on which sums are tried
SAMPLES, TRIED = 512, 24
#: memory that caches hold: registers and a GPU's shared memory are not of it
CACHED = ("", "global")
#: stands for the addresses of an access that depend on values in memory
ANYWHERE = None
#: pointers with the memory that they point to
_Layout = tuple[tuple[e.Var, Array], ...]
#: no two loops have the same number
_NUMBERS = count()


@lru_cache(256)
def nest_of(func: PrimFunc) -> Nest:
    """The loops and accesses of a function of any shapes and dtypes, read once."""
    func, layout = guessed(func)
    return _Reader(tuple(layout.items())).region(func.body)


@lru_cache(1024)
def _outermost(n: s.For, layout: _Layout) -> Nest:
    """A loop that stands in no other: a step changes few of them."""
    return _Reader(layout).read(n)


class _Toucher(ThroughIndices):
    """Touches also what depends on values in memory: ANYWHERE."""

    def __init__(self, layout: _Layout) -> None:
        self.arrays = dict(layout)
        self.numbers = {data: n for n, data in enumerate(self.arrays)}
        self.reading: dict[int, bool] = {}
        self.turn, self.only = 0, -1

    def one(self, which: int, n: Any, frame: Frame, mask: Any) -> Touched:
        """One of the accesses of a store or value: no others are looked at."""
        self.only = which
        try:
            return self.all(n, frame, mask)[which]
        finally:
            self.only = -1

    def all(self, n: Any, frame: Frame, mask: Any) -> list[Touched]:
        """The accesses to cached memory of a store or value, in the iterations of `mask`."""
        self.turn = 0
        parts = [n.value] if isinstance(n, s.Evaluate) else [n]
        if isinstance(n, s.BufferStore):
            parts = [*n.indices, n.value]
        try:
            found = [x for part in parts for x in self.value(part, frame, mask)]
        except Unknown:  # which of them are made depends on memory: all
            self.turn = 0
            loads = [x for x in walk(n) if isinstance(x, BufferLoad)]
            found = [self.access(x.buffer, x.indices, None, frame, mask) for x in loads]
        if isinstance(n, s.BufferStore):
            found.append(self.access(n.buffer, n.indices, n.predicate, frame, mask))
        return [x for x in found if x[0].scope in CACHED]

    def access(self, buffer: Any, indices: Any, predicate: Any, frame: Frame, mask: Any) -> Any:
        """One load or store, wherever it is: (buffer, addresses, mask)."""
        if buffer.scope not in CACHED:
            return buffer, ANYWHERE, mask
        self.turn += 1
        if self.only not in (-1, self.turn - 1):
            return buffer, ANYWHERE, mask
        try:
            position, kept = self.position(buffer, indices, predicate, frame, mask)
        except Unknown:
            return buffer, ANYWHERE, mask
        array = self.arrays[buffer.data]
        return buffer, position * buffer.dtype.nbytes + array.base, kept


@dataclass(frozen=True)
class _Place:
    """What is around a statement: loops, variables, and conditions that have to hold."""

    toucher: _Toucher
    levels: tuple[Level, ...] = ()
    lets: tuple[tuple[e.Var, Any], ...] = ()
    conditions: tuple[Any, ...] = ()

    def frame(self, points: np.ndarray) -> Frame:
        """Values of the variables in iterations: a row for each, a column for each loop."""
        frame: Frame = {}
        for column, level in enumerate(self.levels):
            found = frame.get(level.loop.loop_var)
            if found is None:
                found = evaluate(level.loop.min, frame, 0)
            frame[level.loop.loop_var] = found + points[:, column] * level.unit
        for var, value in self.lets:
            frame[var] = None if self.toucher.reads(value) else evaluate(value, frame, None)
        return frame

    def touched(self, n: Any, points: np.ndarray) -> list[Touched]:
        """The accesses of a statement or value in these iterations."""
        with np.errstate(all="ignore"):
            found = self.toucher.all(n, *self._around(points))
            return [self._placed(x, points) for x in found]

    def one(self, which: int, n: Any, points: np.ndarray) -> Touched:
        """One of the accesses that `touched` finds."""
        with np.errstate(all="ignore"):
            return self._placed(self.toucher.one(which, n, *self._around(points)), points)

    def _around(self, points: np.ndarray) -> tuple[Frame, Any]:
        """The variables, and the iterations in which the conditions hold."""
        frame, held = self.frame(points), None
        for condition in self.conditions:
            if not self.toucher.reads(condition):
                held = both(held, evaluate(condition, frame, None))
        return frame, held

    def _placed(self, touched: Touched, points: np.ndarray) -> Touched:
        buffer, at, mask = touched
        return buffer, self._anywhere(buffer, points) if at is ANYWHERE else at, mask

    def _anywhere(self, buffer: Buffer, points: np.ndarray) -> np.ndarray:
        """Addresses all over the array, the same each time."""
        array, itemsize = self.toucher.arrays[buffer.data], buffer.dtype.nbytes
        mixed = points @ (np.arange(points.shape[1]) * 2 + 0x9E3779B1)
        mixed = (mixed ^ mixed >> 15) * 0x85EBCA6B & 0xFFFFFFFF
        return array.base + (mixed >> 7) % max(1, array.nbytes // itemsize) * itemsize


class _Reader:
    """Walks statements, with what is around them."""

    def __init__(self, layout: _Layout) -> None:
        self.layout = layout
        self.place = _Place(_Toucher(layout))
        self.tick = 0
        self.divisors: dict[e.Var, set[int]] = {}

    def region(self, n: Any) -> Nest:
        """A statement as one nest."""
        return self.joined(self.parts(n))

    def joined(self, parts: Iterable[Nest]) -> Nest:
        """Parts one after the other; accesses that stand side by side are one part."""
        kept: list[Nest] = []
        for part in parts:
            if kept and not part.parts and not kept[-1].parts:
                one = kept.pop()
                part = self.nest(None, (), (*one.inside, *part.inside), one.ticks + part.ticks)
            if part.inside:
                kept.append(part)
        if len(kept) == 1:
            return kept[0]
        return self.nest(None, tuple(kept), tuple(x for part in kept for x in part.inside))

    def nest(
        self,
        level: Level | None,
        parts: tuple[Nest, ...],
        inside: tuple[Addressed, ...],
        ticks: int = 0,
    ) -> Nest:
        """A nest at the depth that is being read."""
        ticks += sum(x.ticks for x in parts)
        depth = len(self.place.levels)
        return Nest(level, depth, parts, inside, ticks * (1 if level is None else level.trips))

    def parts(self, n: Any) -> list[Nest]:
        """What is done one after the other in a statement."""
        if isinstance(n, s.For):
            return [self.loop(n)]
        if not bodies(n):
            return [self.leaf(n)]
        found = [self.leaf(x) for x in heads(n) if self.place.toucher.reads(x)]
        for part, scope in parts(n):
            found += self.inside(part, conditions=scope.conditions, lets=scope.values)
        return found

    def inside(self, n: Any, **more: Iterable[Any]) -> list[Nest]:
        """The parts of a statement in a place that has more levels, variables or conditions."""
        outer = self.place
        added: dict[str, Any] = {
            name: (*getattr(outer, name), *(x for x in some if not isinstance(x, e.IntImm)))
            for name, some in more.items()
        }
        self.place = replace(outer, **added)
        found = self.parts(n)
        self.place = outer
        return found

    def loop(self, n: s.For) -> Nest:
        """A loop; one that stands in no other is kept."""
        place = self.place
        alone = not (place.levels or place.lets or place.conditions)
        return _outermost(n, self.layout) if alone else self.read(n)

    def read(self, n: s.For) -> Nest:
        """A loop; one whose extent varies runs as often as it does at most."""
        extent = p.as_int(n.extent)
        trips = self.most(n.extent) if extent is None else extent
        limits = () if extent is not None else (p.less(p.subtract(n.loop_var, n.min), n.extent),)
        levels = [Level(n, some, unit, next(_NUMBERS)) for some, unit in self.pieces(n, trips)]
        begin = self.tick
        inner = self.inside(n.body, levels=levels, conditions=limits)
        self.tick = begin + (self.tick - begin) * trips
        outer = self.place
        for at in range(len(levels) - 1, -1, -1):
            self.place = replace(outer, levels=(*outer.levels, *levels[: at + 1]))
            body = self.joined(inner)
            self.place = replace(outer, levels=(*outer.levels, *levels[:at]))
            inner = [self.nest(levels[at], (body,) if body.inside else (), body.inside)]
        self.place = outer
        return inner[0]

    def pieces(self, n: s.For, trips: int) -> list[tuple[int, int]]:
        """(trips, unit) of the loops that a fused one was made of, outermost first.

        They are read from the numbers by which indices divide it.
        """
        if n.loop_var not in self.divisors:
            self.divisors |= _divisors(n)
        pieces, left, below = [], trips, 1
        for divisor in sorted(self.divisors[n.loop_var]):
            if below < divisor < trips and divisor % below == 0 and trips % divisor == 0:
                pieces.append((divisor // below, below))
                below, left = divisor, trips // divisor
        return [(left, below), *pieces[::-1]]

    def most(self, extent: Any) -> int:
        """The largest value of an extent."""
        try:
            found = evaluate(extent, self.place.frame(self.probes()[0]))
        except Unknown:
            return UNKNOWN
        return max(1, int(np.max(found)))

    def probes(self) -> tuple[np.ndarray, list[slice]]:
        """Iterations: the first; those of each loop while the others are at their first; the last;
        and some. With the rows of each loop.
        """
        levels = self.place.levels
        sizes = [min(x.trips, SAMPLES) for x in levels]
        points = np.zeros((sum(sizes) + 2 + TRIED, len(levels)), np.int64)
        rows, begin = [], 1
        for column, (level, size) in enumerate(zip(levels, sizes, strict=True)):
            rows.append(slice(begin, begin + size))
            points[rows[-1], column] = np.arange(size)
            begin += size
            parts = (np.arange(1, TRIED + 1) * (0.754877666 + 0.569840291 * column)) % 1
            points[-TRIED:, column] = parts * level.trips
            points[-TRIED - 1, column] = level.trips - 1
        return points, rows

    def leaf(self, n: Any) -> Nest:
        """The accesses of one statement or value."""
        found: dict[Any, Addressed] = {}
        begin = self.tick
        if isinstance(n, s.BufferStore) or self.place.toucher.reads(getattr(n, "value", n)):
            probes = self.probes()
            for which, touched in enumerate(self.place.touched(n, probes[0])):
                for lane in _lanes(touched[1]):
                    made, key = self.access(n, which, touched, lane, probes)
                    found[key] = replace(found.get(key, made), until=self.tick)
                    self.tick += 1
        return self.nest(None, (), tuple(found.values()), self.tick - begin)

    def access(
        self, n: Any, which: int, touched: Touched, lane: int, probes: tuple[Any, Any]
    ) -> tuple[Addressed, Any]:
        """An access as it was found in some iterations, and what tells that another is the same."""
        place, (buffer, at, mask), (points, rows) = self.place, touched, probes
        many = len(points)

        def exact(points: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            _, at, mask = place.one(which, n, points)
            return _column(at, lane, len(points)), _mask(mask, lane, len(points))

        address, held = _column(at, lane, many), _mask(mask, lane, many)
        steps = tuple(_step(address[r] - address[0]) for r in rows)
        moving = tuple(not isinstance(x, int) or x != 0 for x in steps)
        number = place.toucher.numbers[buffer.data]
        made = Addressed(
            number, buffer.name, buffer.dtype.nbytes, place.levels, self.tick, self.tick,
            int(address[0]), steps, None, moving,
        )  # fmt: skip
        key = (number, address.tobytes(), None if held is None else held.tobytes())
        if (held is None or held.all()) and _adds_up(made, points, address):
            return made, key
        if held is None or not held[0]:
            made = replace(made, moving=self.deciding(n, made))
        return replace(made, exact=exact), key

    def deciding(self, n: Any, access: Addressed) -> tuple[bool, ...]:
        """The loops that may have a say in an access: those that it or its conditions name.

        Where the first iteration makes the access, those that move it are enough: that others
        leave it out in some iterations changes no line that it touches in all.
        """
        seen = frozenset[e.Var]().union(*map(_variables, (n, *self.place.conditions)))
        for var, value in reversed(self.place.lets):
            if var in seen:
                seen |= _variables(value)
        return tuple(level.loop.loop_var in seen for level in access.around)


@lru_cache(1024)
def _variables(n: Any) -> frozenset[e.Var]:
    return frozenset(v for v in walk(n) if isinstance(v, e.Var))


def _lanes(at: Any) -> tuple[int, ...]:
    """The lanes of a vector that stand for all: the first and the last."""
    return (0, -1) if np.ndim(at) == 2 and at.shape[1] > 1 else (0,)


def _column(x: Any, lane: int, count: int) -> np.ndarray:
    """One number for each iteration."""
    x = np.asarray(x)
    return np.broadcast_to(x[:, lane] if x.ndim == 2 else x, (count,)).astype(np.int64)


def _mask(x: Any, lane: int, count: int) -> np.ndarray | None:
    return None if x is None else _column(x, lane, count).astype(bool)


def _step(added: np.ndarray) -> Any:
    """What the iterations of a loop add: a number where each adds the same to the one before."""
    if len(added) < 2:
        return 0
    step = int(added[1])
    return step if np.array_equal(added, np.arange(len(added)) * step) else added


def _adds_up(access: Addressed, points: np.ndarray, address: np.ndarray) -> bool:
    """Whether the steps of all loops give the addresses that were found."""
    long = [level.trips > SAMPLES for level in access.around]
    if any(many and not isinstance(x, int) for many, x in zip(long, access.steps, strict=True)):
        return False
    total = sum((access.added(n, points[:, n]) for n in range(points.shape[1])), access.base)
    return bool(np.array_equal(np.broadcast_to(total, address.shape), address))


def _divisors(n: s.For) -> dict[e.Var, set[int]]:
    """Of a loop and those inside: the numbers by which what is within divides each variable."""
    found: dict[e.Var, set[int]] = {}
    for x in walk(n):
        if isinstance(x, s.For):
            found.setdefault(x.loop_var, set())
        elif isinstance(x, e.FloorDiv | e.FloorMod):
            for v in walk(x.a):
                if isinstance(v, e.Var):
                    found.setdefault(v, set()).add(p.as_int(x.b) or 1)
    return found
