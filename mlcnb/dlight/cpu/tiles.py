"""Register tiles: how many results are kept in vector registers at once.

A tile of `rows` x `vectors` accumulators costs, at each step of the reduction, `vectors` loads of
weights, `rows` broadcasts and rows * vectors multiply-adds. Large tiles amortise the loads; what
does not fit in the registers is spilled, which costs far more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlcnb.dlight.decide import decide
from mlcnb.dlight.register_tiles import OPEN
from mlcnb.ir.prim_ops import as_int
from mlcnb.target import Target
from mlcnb.target.cpus import cpu_name, loads_of
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.overlap_tiles import PRAGMA as OVERLAP

#: iterations that keep a few threads busy
ENOUGH = 8
#: what comes from L2 or L3 in a cycle, one behind the other: so many bytes, or this part of a
#: vector if that is more
NEXT_BYTES, NEXT_VECTOR = 12, 0.375
#: bytes in a cycle where each load goes by one stride (`steady_loads`)
STEADY_BYTES = 24
#: accumulators with which the units that multiply and add do not wait for one another's results
BUSY = 10
#: cycles in which a line comes from the last cache
FAR = 100


class Tile(NamedTuple):
    """rows: results along the row; vectors: of channels; even: rows divide the row's length."""

    rows: int
    vectors: int
    even: bool


def vector_reads(target: Target, lanes: int, nbytes: int = NEXT_BYTES) -> float:
    """Multiply-adds of vectors in the time in which one of `lanes` float32 comes from L2 or L3, of
    which a cycle brings so many bytes."""
    return target.multiply_adds / max(nbytes / (4 * lanes), NEXT_VECTOR)


def steady_loads(sch: Schedule, channel: Any, tile: tuple[int, int], target: Target) -> None:
    """Write out the loop over the channels of a block, where a block takes less time than a line
    from far away; tile: rows and vectors whose products each step adds.

    A load then goes from block to block by one stride, which hardware learns, load by load. In a
    loop it goes through a block and jumps: lines of the next one are asked for when it has begun.
    Not where LLVM would hold more of the image than a tile leaves registers for: all of a block,
    where an element of it can be multiplied; broadcasts of later steps, where each has but one use.
    """
    lanes, (rows, vectors) = target.lanes("float32"), tile
    is_short = lanes * rows * vectors / target.multiply_adds < FAR
    has_room = vectors > 1 or 2 * rows <= target.vector_registers
    if is_short and has_room and "neon" not in target.features:
        if as_int(sch.get(channel).extent) == lanes:
            sch.unroll(channel)


def overlap(sch: Schedule, *loops: Any, narrower: int | list[int] | None = None) -> None:
    """Let the last tile of an open row begin early, for each of the loops that go over some;
    `narrower`: the places of smaller tiles, for rows of which these compute less, and of still
    smaller ones, for shorter rows."""
    for loop in loops:
        if as_int(sch.get(loop).extent) is None:
            sch.annotate(loop, OVERLAP, narrower or True)


def choose_tile(
    length: int | None,
    chunks: int | None,
    registers: int,
    vectors: int | None = None,
    target: Target | None = None,
    depth: int = 0,
) -> Tile:
    """The best tile for rows of `length` results and `chunks` vectors of channels.

    Args:
        length: results in a row; None if not known: the last tile overlaps the one before
            (OverlapTiles), or has tests where there is no other.
        chunks: vectors of channels there are; None if not known.
        registers: vector registers of the target.
        vectors: if given, the tile has just so many.
        target: whose L1 holds weights for some vectors, so many steps deep, or does not: these are
            slower to read. None where that does not count.
        depth: steps of the reduction.
    """
    found = _tiles(length, chunks, registers, vectors)
    return decide("tile", found, lambda tile: _cost(tile, length, registers, target, depth))


def gain_over_rows(width: int, height: int, chunks: int, target: Target, depth: int) -> float:
    """How much less a tile costs that runs over the ends of rows than one that ends with a row; the
    arguments are `choose_pixels`' and `choose_tile`'s.
    """
    registers = target.vector_registers
    row, all_rows = (
        min(_cost(t, n, registers, target, depth) for t in _tiles(n, chunks, registers))
        for n in (width, width * height)
    )
    return row / all_rows


def choose_pixels(width: int, height: int, chunks: int, target: Target) -> tuple[Tile, bool] | None:
    """The tile of a product of width * height pixels with `chunks` vectors of channels.

    Tall and one vector wide where the weights are more than the pixels (and a multiply-add can
    broadcast an operand from memory), two vectors wide where it is the pixels that should be read
    few times. Also whether a tile runs over the ends of rows; None where no tile fits well and
    there are too few chunks to run in parallel instead.
    """
    lanes, registers = target.lanes("float32"), target.vector_registers
    broadcasts = "avx512f" in target.features
    if chunks % 2 and not broadcasts:
        return None
    narrow = broadcasts and _keeps_up(target) and chunks * lanes >= width * height
    vectors = 1 if chunks % 2 or narrow else 2
    most = max(r for r in range(1, registers) if r == 1 or _fits(r, vectors, registers))
    for pixels in (width, width * height):
        rows = max(r for r in range(1, most + 1) if pixels % r == 0)
        if 4 * rows >= 3 * min(most, width * height):
            return Tile(rows, vectors, True), pixels > width
    if chunks // vectors < ENOUGH:
        return None
    return Tile(-(-pixels // -(-pixels // most)), vectors, False), True


def _keeps_up(target: Target) -> bool:
    """Whether a load is left for the weights beside multiply-adds that each broadcast a number from
    memory, as those of a tile of one vector do."""
    is_x86 = "avx512f" in target.features
    return not is_x86 or loads_of(cpu_name(target.mcpu)) > target.multiply_adds


def part_used(length: int, step: int) -> float:
    """The part of the work that is not thrown away at the end of a row, done in such steps."""
    return length / (-(-length // step) * step)


def open_use(step: int) -> float:
    """The part of the work that is not thrown away in rows of open length, of usual ones."""
    return sum(part_used(n, step) for n in OPEN) / len(OPEN)


def second_width(rows: int, vectors: int) -> int | None:
    """Places of the tiles that waste least beside those of `rows`, in rows of usual lengths, of
    which each takes the tiles that suit it; None where two do not waste less than one."""

    def used(length: int, width: int) -> float:
        return part_used(length, width) * min(1.0, width * vectors / BUSY)

    def both(width: int) -> float:
        return sum(max(used(n, rows), used(n, width)) for n in OPEN)

    best = max(range(1, rows + 1), key=both)
    return best if both(best) > both(rows) else None


def _tiles(
    length: int | None, chunks: int | None, registers: int, vectors: int | None = None
) -> list[Tile]:
    """The tiles that registers hold."""
    most = registers - 4 if registers > 16 else registers - 3
    return [
        Tile(rows, width, length is not None and length % rows == 0)
        for width in ([vectors] if vectors else _vectors(chunks))
        for rows in range(1, min(length or most, most) + 1)
        if rows == 1 or (rows * width <= most and _fits(rows, width, registers))
    ]


def _cost(
    tile: Tile, length: int | None, registers: int, target: Target | None, depth: int
) -> float:
    """What a multiply-add costs that is not thrown away."""
    reads, broadcasts = 0.0, registers > 16 and (target is None or _keeps_up(target))
    if target is not None:
        lanes = target.lanes("float32")
        if tile.vectors > target.caches[0] // (8 * lanes * depth):
            steady = NEXT_BYTES if "neon" in target.features else STEADY_BYTES
            reads = tile.vectors * vector_reads(target, lanes, steady)
    return 1 / _score(tile, length, reads, broadcasts)


def _vectors(chunks: int | None) -> list[int]:
    return [v for v in (1, 2, 3, 4) if chunks is not None and chunks % v == 0] or [1]


def _fits(rows: int, vectors: int, registers: int) -> bool:
    """Accumulators, one step's weights, and a broadcast (none for one vector: it is an operand)."""
    return rows * vectors + vectors + (1 if vectors > 1 else 0) <= registers


def _score(tile: Tile, length: int | None, reads: float, broadcasts: bool) -> float:
    """Multiply-adds for each instruction, less what an uneven tile wastes at the end of a row.

    `broadcasts`: a multiply-add takes an operand from memory for less than a load costs.
    """
    work = tile.rows * tile.vectors
    loads = tile.vectors + (0.5 if broadcasts and tile.vectors == 1 else 1.0) * tile.rows
    density = work / (max(work, reads) + 0.25 * loads)
    latency = min(1.0, work / BUSY)
    if length is None:
        return density * latency * open_use(tile.rows)
    return density * latency * (1.0 if tile.even else 0.93 * part_used(length, tile.rows))
