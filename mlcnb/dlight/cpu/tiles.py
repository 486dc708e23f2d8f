"""Register tiles: how many results are kept in vector registers at once.

A tile of `rows` x `vectors` accumulators costs, at each step of the reduction, `vectors` loads of
weights, `rows` broadcasts and rows * vectors multiply-adds. Large tiles amortise the loads; what
does not fit in the registers is spilled, which costs far more.
"""

from __future__ import annotations

from typing import NamedTuple

from mlcnb.dlight.decide import decide
from mlcnb.target import Target

#: iterations that keep a few threads busy
ENOUGH = 8


class Tile(NamedTuple):
    """rows: results along the row; vectors: of channels; even: rows divide the row's length."""

    rows: int
    vectors: int
    even: bool


def choose_tile(
    length: int | None, chunks: int | None, registers: int, vectors: int | None = None
) -> Tile:
    """The best tile for rows of `length` results and `chunks` vectors of channels.

    Args:
        length: results in a row; None if not known, which makes tiles of one row.
        chunks: vectors of channels there are; None if not known.
        registers: vector registers of the target.
        vectors: if given, the tile has just so many.
    """
    most = registers - 4 if registers > 16 else registers - 3
    candidates = [
        Tile(rows, width, length is not None and length % rows == 0)
        for width in ([vectors] if vectors else _vectors(chunks))
        for rows in range(1, min(length or 1, most) + 1)
        if rows == 1 or (rows * width <= most and _fits(rows, width, registers))
    ]
    return decide("tile", candidates, lambda tile: 1 / _score(tile, length))


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
    vectors = 1 if chunks % 2 or (broadcasts and chunks * lanes >= width * height) else 2
    most = max(r for r in range(1, registers) if r == 1 or _fits(r, vectors, registers))
    for pixels in (width, width * height):
        rows = max(r for r in range(1, most + 1) if pixels % r == 0)
        if 4 * rows >= 3 * min(most, width * height):
            return Tile(rows, vectors, True), pixels > width
    if chunks // vectors < ENOUGH:
        return None
    return Tile(-(-pixels // -(-pixels // most)), vectors, False), True


def _use(length: int, step: int) -> float:
    """The part of the work that is not thrown away at the end of a row."""
    return length / (-(-length // step) * step)


def _vectors(chunks: int | None) -> list[int]:
    return [v for v in (1, 2, 3, 4) if chunks is not None and chunks % v == 0] or [1]


def _fits(rows: int, vectors: int, registers: int) -> bool:
    """Accumulators, one step's weights, and a broadcast (none for one vector: it is an operand)."""
    return rows * vectors + vectors + (1 if vectors > 1 else 0) <= registers


def _score(tile: Tile, length: int | None) -> float:
    """Multiply-adds for each instruction, less what an uneven tile wastes at the end of a row."""
    work = tile.rows * tile.vectors
    loads = tile.vectors + (tile.rows if tile.vectors > 1 else 0.5 * tile.rows)
    density = work / (work + 0.25 * loads)
    latency = min(1.0, work / 10)
    if length is None:
        return work
    return density * latency * (1.0 if tile.even else 0.93 * _use(length, tile.rows))
