"""Register tiles of any sum: which fit, which are cheap, and the loops around one.

for i, j, k in T.grid(…):     for i0, j0 in T.grid(…):               6 x 2 vectors, in registers
    C[i, j] += …          ->      acc = 0
                                  for k: for i1, j1, lane: acc += A[i, k] * packed B[k, j]
                                  C[…] = acc

Read from what a block touches: along which axis results, and what is read, can lie as vectors, and
which axes move an operand. Operands that do not lie so are packed, results turned. The rule `sums`
takes the cheapest tile, `meta_schedule`'s RegisterTiling draws among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from mlcnb.dlight.looking import (
    PREPROC,
    Touch,
    is_spatial,
    is_touched,
    kinds,
    layout_free,
    note,
    touch_of,
)
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.cache import LATENCY, LOADS
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import Block, IterType

#: a sum of so few steps is written out
FEW_STEPS = 16
#: vectors along their axis in a tile, at most
MOST_VECTORS = 7
#: the part of a load that is not hidden behind multiply-adds: of a vector, and of a number that
#: fills one, where that is read once (with many registers it is an operand of each multiply-add)
IN_SIGHT, BROADCAST = 0.25, 0.05
#: registers from which on there are many
MANY_REGISTERS = 32
#: cycles to bring one result, and one element that is packed, to its other place
TURNED = 2.0
#: what tests at the edges of tiles that do not divide an axis add
UNEVEN = 1.05
#: what a size that is not known counts as; lengths that it may well have; what is shorter than a
#: tile has tests, and takes so many times longer. So many steps are more than `FEW_STEPS`
UNKNOWN, OPEN, TESTED = 64, (7, 10, 14, 20, 28, 40, 56, 80, 160), 4.0


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
    """A block that sums up: the extents and letters of its axes, what it reads and writes; bytes of
    an element of each; axes of open extent, which count as `UNKNOWN`.
    """

    extents: tuple[int, ...]
    letters: str
    reads: tuple[Touch, ...]
    result: Touch
    nbytes: tuple[int, ...]
    open: frozenset[int] = frozenset()

    @staticmethod
    def of(node: Block) -> Summed | None:
        """What a block sums up; None where it does something else."""
        extents = [as_int(v.dom.extent) for v in node.iter_vars]
        kinds = {IterType.SPATIAL: "S", IterType.REDUCE: "R"}
        letters = "".join(kinds.get(v.iter_type, "O") for v in node.iter_vars)
        if node.init is None or len(node.writes) != 1 or "O" in letters:
            return None
        result = node.writes[0]
        axes = [v.var for v in node.iter_vars]
        reads = [(n, r) for n, r in enumerate(node.reads) if r.buffer is not result.buffer]
        touches = [touch_of(n, r, axes) for n, r in [*reads, (-1, result)]]
        if not reads or any(x is None for x in touches):
            return None
        *read, written = (x for x in touches if x is not None)
        sizes = tuple(UNKNOWN if n is None else n for n in extents)
        is_open = frozenset(n for n, size in enumerate(extents) if size is None)
        nbytes = tuple(-(-r.buffer.dtype.bits // 8) for _, r in [*reads, (-1, result)])
        return Summed(sizes, letters, tuple(read), written, nbytes, is_open)

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
        if axis in self.open:  # tiles begin anywhere: what is packed for them is turned as a whole
            if not self.result.lies_along(axis):
                return
            may = must
        # half vectors where whole ones do not divide the axis
        widths = (lanes, lanes // 2) if self.extents[axis] % lanes else (lanes,)
        for packed in sorted({tuple(r.place for r in x) for x in (must, may)}):
            for each in (n for n in widths if n > 1 and self.extents[axis] % n == 0):
                yield from self._of_lanes(axis, each, packed, target, lanes)

    def _of_lanes(
        self, axis: int, lanes: int, packed: tuple[int, ...], target: Target, whole: int
    ) -> Iterator[Tile]:
        chunks = self.extents[axis] // lanes
        turned = not self.result.lies_along(axis)
        part = lanes / whole if target.halves_vectors or lanes == whole else 1.0
        registers, adds = target.vector_registers, target.multiply_adds
        broadcast = IN_SIGHT if registers >= MANY_REGISTERS else BROADCAST
        packing = TURNED * turned / self.steps + self._packing(packed)
        for vectors in (n for n in range(1, MOST_VECTORS + 1) if chunks % n == 0):
            for rows in self._rows(axis, (registers - 2) // vectors):
                sums = vectors * math.prod(rows)
                loads = self.loads(axis, vectors, rows)
                # one operand is held while the others pass by
                if sums + min(loads) + 1 > registers:
                    continue
                work = sums * part / adds
                each = (IN_SIGHT if r.moves[axis] else broadcast for r in self.reads)
                seen = sum(n * cycles for n, cycles in zip(loads, each, strict=True))
                cycles = max(work, sum(loads) / LOADS, LATENCY) + seen * part
                cost = cycles * self._waste(axis, vectors * lanes, rows) / (sums * lanes) + packing
                yield Tile(axis, lanes, vectors, rows, packed, turned, cost)

    def loads(self, axis: int, vectors: int, rows: Sequence[int]) -> list[int]:
        """Of each read, in a step of a tile: how many vectors, or numbers that fill one."""
        counts = [vectors if n == axis else rows_ for n, rows_ in enumerate(rows)]
        return [math.prod(n for n, m in zip(counts, r.moves, strict=True) if m) for r in self.reads]

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

    def _waste(self, axis: int, width: int, rows: Sequence[int]) -> float:
        """What is done in vain at the edges, and for their sake."""
        found = 1.0
        for n, (rows_, extent) in enumerate(zip(rows, self.extents, strict=True)):
            if n in self.open:
                found *= _unsure(width if n == axis else rows_)
            elif extent % rows_:
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


@lru_cache
def _unsure(places: int) -> float:
    """What tiles of so many places do in vain along an axis of open length, which overlap."""
    whole = (-(-n // places) * places / n if n >= places else TESTED for n in OPEN)
    return sum(whole) / len(OPEN)


class Laid(NamedTuple):
    """Loops over the tiles of a sum; the blocks that copy operands, with the loops of what they
    write where an order was given.
    """

    outer: list[Any]
    copies: list[Any]


def tiled(
    sch: Schedule,
    block: Any,
    summed: Summed,
    tile: Tile,
    order: Sequence[int] | None = None,
) -> Laid:
    """Lay a block's loops around a tile.

    order: the spatial axes, as the loops over their tiles shall stand; None: those that are drawn
    for tasks outside, in the order of the axes.

    Raises:
        ScheduleError: a step is not legal.
    """
    copies = list[Any]()
    for touch in map(summed.read, tile.packed):
        copies.append(_pack(sch, block, summed, touch, tile))
        if order is None:
            _in_vectors(sch, copies[-1], touch, tile)
        else:
            sch.transform_block_layout(copies[-1], _packing(summed, touch, tile))
    kept = _kept(sch, block)
    stored = [*kept]
    if tile.turned:
        stored.insert(0, sch.cache_write(block, 0, "global"))
        sch.transform_layout(block, ("write", 0), _packing(summed, summed.result, tile))
    if tile.turned or not kept:
        stored.insert(0, sch.cache_write(block, 0, "local"))
    else:
        sch.set_scope(block, 0, "local")
    outer, reduce, inner = _split(sch, block, summed, tile, order)
    for one in stored:
        sch.reverse_compute_at(one, outer[-1], preserve_unit_loops=True)
    start = sch.decompose_reduction(block, reduce[0])
    for one, width in ((start, None), (stored[0], tile.lanes)):
        _written_out(sch, one, len(outer), width)
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
    if summed.steps <= FEW_STEPS:
        for loop in reduce:
            sch.unroll(loop)
    return Laid(outer, copies)


def _kept(sch: Schedule, block: Any) -> list[Any]:
    """The only block that reads the result, element by element: it stores what is in registers."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or not is_spatial(sch, consumers[0]) or is_touched(sch, consumers[0]):
        return []
    result = sch.get(block).writes[0].buffer
    read = [r for r in sch.get(consumers[0]).reads if r.buffer is result]
    whole = all(as_int(i.extent) == 1 for r in read for i in r.region)
    return consumers if whole else []


def _pack(sch: Schedule, block: Any, summed: Summed, touch: Touch, tile: Tile) -> Any:
    """Copy what is read, vector by vector; once before the function runs, where that is allowed."""
    is_free = sch.get(block).reads[touch.place].buffer in layout_free(sch)
    copy = sch.cache_read(block, touch.place, "global")
    sch.transform_layout(block, ("read", touch.place), _packing(summed, touch, tile))
    if is_free:
        sch.annotate(copy, PREPROC, True)
    return copy


def _in_vectors(sch: Schedule, copy: Any, touch: Touch, tile: Tile) -> None:
    """The loops of a copy, those over the places of a vector inside."""
    if note(sch, copy, PREPROC):
        return
    loops = sch.get_loops(copy)
    vectors, lane = sch.split(loops.pop(touch.dimension(tile.axis)), [None, tile.lanes])
    sch.reorder(vectors, *loops, lane)
    sch.vectorize(lane)


def _packing(summed: Summed, touch: Any, tile: Tile) -> Any:
    """The index map after which places along the axis of the vectors lie together: spatial axes
    first, in blocks of a tile, then reduce axes, then the places in a tile; all places of an axis
    whose length is open."""
    at, reduced = touch.dimension(tile.axis), summed.reduced(touch)

    def packed(*index: Any) -> tuple[Any, ...]:
        outer = dict(enumerate(index))
        place = outer.pop(at)
        if tile.axis not in summed.open:
            outer[at], place = place // tile.width, place % tile.width
        kept = [x for n, x in sorted(outer.items()) if n not in reduced]
        return (*kept, *(x for n, x in sorted(outer.items()) if n in reduced), place)

    return packed


def _split(
    sch: Schedule, block: Any, summed: Summed, tile: Tile, order: Sequence[int] | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """(loops over tasks and over their tiles, over the steps of the sum, over a tile).

    Of the last ones those are innermost that move the operand with the fewest loads: all of it is
    held in registers then, while the others pass by one after the other.
    """
    loops = sch.get_loops(block)
    whole: dict[int, Any] = {}
    tasks, own, reduce, passing, held = (list[Any]() for _ in range(5))
    loads = summed.loads(tile.axis, tile.vectors, tile.rows)
    fewest = min(range(len(loads)), key=loads.__getitem__)
    for n, (loop, letter) in enumerate(zip(loops, kinds(sch, block, loops), strict=True)):
        if letter != "S":
            reduce.append(loop)
            continue
        if n == tile.axis:
            whole[n], row, lane = sch.split(loop, [None, tile.vectors, tile.lanes])
        else:
            whole[n], row = sch.split(loop, [None, tile.rows[n]])
        (held if summed.reads[fewest].moves[n] else passing).append(row)
        if order is None:
            outer, inner = _drawn(sch, whole[n])
            tasks.append(outer)
            own.insert(0 if n == tile.axis else len(own), inner)
    outside = [*tasks, *own] if order is None else [whole[n] for n in order]
    sch.reorder(*outside, *reduce, *passing, *held, lane)
    return outside, reduce, [*passing, *held, lane]


def _drawn(sch: Schedule, loop: Any) -> Sequence[Any]:
    """A loop over tiles as one over tasks and one over the tiles of a task."""
    return sch.split(loop, sch.sample_perfect_tile(loop, n=2, max_innermost_factor=2**30))


def _written_out(sch: Schedule, block: Any, outer: int, width: int | None) -> None:
    """The loops of a tile unrolled, the last one a vector of `width`, or as it is."""
    *rows, last = sch.get_loops(block)[outer:]
    if width is not None and as_int(sch.get(last).extent) != width:
        *more, last = sch.split(last, [None, width])
        rows += more
    for loop in rows:
        sch.unroll(loop)
    sch.vectorize(last)
