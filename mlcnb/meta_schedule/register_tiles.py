"""Tiles of results that stay in vector registers while a block sums up, the cheapest first.

C[i, j] += A[i, k] * B[k, j]     along j 2 vectors of 16, of i 14 places: 28 registers of sums,
                                 and at each step 2 vectors of B and 14 elements of A

Only what a block's accesses say counts: along which axis results, and what is read, can lie as
vectors, and which axes move an operand. Operands that do not lie so are packed, results turned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.tir.stmt import Block, IterType

#: vectors along their axis in a tile, at most
MOST_VECTORS = 7
#: vectors that one cycle loads, and cycles until a sum can be added to
LOADS, LATENCY = 2.0, 4.0
#: the part of a load that is not hidden behind multiply-adds
IN_SIGHT = 0.25
#: cycles to bring one result, and one element that is packed, to its other place
TURNED = 2.0
#: what tests at the edges of tiles that do not divide an axis add
UNEVEN = 1.05


@dataclass(frozen=True)
class Touch:
    """How one buffer is touched: of each axis (dimension, step) of the indices that it moves.

    place: among the block's reads; -1: the result; alone: of each axis whether it is all of an
    index.
    """

    place: int
    rank: int
    moves: tuple[tuple[tuple[int, int], ...], ...]
    alone: tuple[bool, ...]

    def dimension(self, axis: int) -> int | None:
        """The dimension that an axis moves, by one; None: none, or otherwise."""
        found = self.moves[axis]
        return found[0][0] if len(found) == 1 and found[0][1] == 1 else None

    def lies_along(self, axis: int) -> bool:
        """True if neighbours along an axis are neighbours in memory."""
        return self.dimension(axis) == self.rank - 1


@dataclass(frozen=True)
class Tile:
    """What stays in registers.

    Attributes:
        axis: along which vectors lie, and their lanes and number.
        rows: of each axis of the block how many places; 1 for `axis` and for reduce axes.
        packed: reads (their places) that are copied so that vectors lie together.
        turned: results are formed in another layout than they are stored in.
        cost: cycles for each multiply-add of one element.
    """

    axis: int
    lanes: int
    vectors: int
    rows: tuple[int, ...]
    packed: tuple[int, ...]
    turned: bool
    cost: float

    @property
    def width(self) -> int:
        """Places along the axis of the vectors."""
        return self.lanes * self.vectors


@dataclass(frozen=True)
class Summed:
    """A block that sums up: the extents and letters of its axes, what it reads and writes."""

    extents: tuple[int, ...]
    letters: str
    reads: tuple[Touch, ...]
    result: Touch

    @staticmethod
    def of(node: Block) -> Summed | None:
        """What a block sums up; None where it does something else, or a size is not known."""
        extents = [as_int(v.dom.extent) for v in node.iter_vars]
        kinds = {IterType.SPATIAL: "S", IterType.REDUCE: "R"}
        letters = "".join(kinds.get(v.iter_type, "O") for v in node.iter_vars)
        if node.init is None or len(node.writes) != 1 or None in extents or "O" in letters:
            return None
        result = node.writes[0]
        axes = [v.var for v in node.iter_vars]
        reads = [(n, r) for n, r in enumerate(node.reads) if r.buffer is not result.buffer]
        touches = [_touch(n, r, axes) for n, r in [*reads, (-1, result)]]
        if not reads or any(x is None for x in touches):
            return None
        *read, written = (x for x in touches if x is not None)
        sizes = tuple(n for n in extents if n is not None)
        return Summed(sizes, letters, tuple(read), written)

    @property
    def steps(self) -> int:
        """Steps of the sum for each result."""
        return math.prod(n for n, k in zip(self.extents, self.letters, strict=True) if k == "R")

    def read(self, place: int) -> Touch:
        """How the read at a place touches."""
        return next(r for r in self.reads if r.place == place)

    def reduced(self, touch: Touch) -> set[int]:
        """The dimensions that reduce axes move."""
        moves = (m for m, k in zip(touch.moves, self.letters, strict=True) if k == "R")
        return {n for m in moves for n, _ in m}

    def tiles(self, target: Target, lanes: int) -> list[Tile]:
        """All tiles that fit in the registers, the cheapest first."""
        found = [
            tile
            for axis, letter in enumerate(self.letters)
            if letter == "S" and self.extents[axis] > 1
            for tile in self._along(axis, target, lanes)
        ]
        return sorted(found, key=lambda t: t.cost)

    def _along(self, axis: int, target: Target, lanes: int) -> Iterator[Tile]:
        """Tiles whose vectors lie along an axis."""
        moved = [r for r in self.reads if r.moves[axis]]
        must = [r for r in moved if not r.lies_along(axis)]
        may = [r for r in moved if r.alone[axis]]
        stored = self.result.lies_along(axis) or self.result.alone[axis]
        if not moved or not stored or any(not r.alone[axis] for r in must):
            return
        for packed in {tuple(r.place for r in x) for x in (must, may)}:
            for each in (lanes, lanes // 2):
                yield from self._of_lanes(axis, each, packed, target, lanes)

    def _of_lanes(
        self, axis: int, lanes: int, packed: tuple[int, ...], target: Target, whole: int
    ) -> Iterator[Tile]:
        if (
            lanes < 2
            or self.extents[axis] % lanes
            or (lanes < whole and not _is_odd(self, axis, whole))
        ):
            return
        chunks = self.extents[axis] // lanes
        turned = not self.result.lies_along(axis)
        part = lanes / whole if target.halves_vectors or lanes == whole else 1.0
        most = target.vector_registers - 2
        for vectors in (n for n in range(1, MOST_VECTORS + 1) if chunks % n == 0):
            for rows in self._rows(axis, most // vectors):
                sums = vectors * math.prod(rows)
                loads = [
                    math.prod(n for n, m in zip(rows, r.moves, strict=True) if m)
                    * (vectors if r.moves[axis] else 1)
                    for r in self.reads
                ]
                held = sum(n for n, r in zip(loads, self.reads, strict=True) if r.moves[axis])
                if sums + min(held, vectors) + 1 > target.vector_registers:
                    continue
                work = sums * part / target.multiply_adds
                cycles = max(work, sum(loads) / LOADS, LATENCY) + IN_SIGHT * sum(loads) * part
                cost = cycles * self._waste(rows) / (sums * lanes)
                cost += TURNED * turned / self.steps + self._packing(packed)
                yield Tile(axis, lanes, vectors, rows, packed, turned, cost)

    def _rows(self, axis: int, most: int) -> Iterator[tuple[int, ...]]:
        """Places of each axis, that of the vectors left out, no more than `most` in all."""

        def below(n: int, left: int) -> Iterator[tuple[int, ...]]:
            if n == len(self.extents):
                yield ()
                return
            free = n != axis and self.letters[n] == "S"
            for rows in range(1, min(left, self.extents[n]) + 1) if free else (1,):
                for rest in below(n + 1, left // rows):
                    yield (rows, *rest)

        return below(0, most)

    def _waste(self, rows: Sequence[int]) -> float:
        """What is done in vain at the edges, and for their sake."""
        found = 1.0
        for rows_, extent in zip(rows, self.extents, strict=True):
            if extent % rows_:
                found *= UNEVEN * -(-extent // rows_) * rows_ / extent
        return found

    def _packing(self, packed: Sequence[int]) -> float:
        """Cycles to pack, for each multiply-add."""
        total = math.prod(self.extents)
        sizes = (
            math.prod(n for n, m in zip(self.extents, r.moves, strict=True) if m)
            for r in self.reads
            if r.place in packed
        )
        return TURNED * sum(sizes) / total


def _is_odd(of: Summed, axis: int, whole: int) -> bool:
    """True if whole vectors do not divide an axis."""
    return of.extents[axis] % whole > 0


def _touch(place: int, region: Any, axes: Sequence[Var]) -> Touch | None:
    """What moves a buffer; None where more than one element is touched at a time."""
    if any(as_int(r.extent) != 1 for r in region.region):
        return None
    analyzer, found, alone = Analyzer(), [], []
    for axis in axes:
        moved = []
        for n, r in enumerate(region.region):
            if any(v is axis for v in walk(r.min)):
                parts = analyzer.normal_form(r.min).coefficient_of(analyzer.context.var(axis))
                step = parts[0].const if parts is not None and parts[0].is_const else 0
                moved.append((n, int(step)))
        found.append(tuple(moved))
        alone.append(
            [n for n, _ in moved] == [n for n, r in enumerate(region.region) if r.min is axis]
        )
    return Touch(place, len(region.region), tuple(found), tuple(alone))
