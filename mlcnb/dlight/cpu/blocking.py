"""How a product is cut: a tile of results for the registers, parts of the matrix for the threads.

 part    part                    tile: rows x vectors of accumulators; as many tiles as it takes
+-------+-------+                part: row_tiles x column_tiles tiles, on one thread
|#| | | | | | | |  # tile
| | | | | | | | |                Both are the cheapest of some candidates, in cycles of the
+-------+-------+                multiply-add units, by the costs below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mlcnb.dlight.cpu.product import Product, lanes_of
from mlcnb.dlight.cpu.tiles import vector_reads
from mlcnb.dlight.decide import Decisions, decide
from mlcnb.machine.cache import LINE, caches
from mlcnb.target import Target

#: what is taken for a depth, or a number of rows, that is not known
USUAL = 512
#: vectors of columns in a tile, at most
MOST_VECTORS = 4
#: multiply-adds of vectors that must be under way for the units to be busy
LATENCY = 8
#: cycles of a load of a vector of B that are not hidden: of a copied panel, and as it lies
LOAD_COPIED, LOAD = 0.1, 0.5
#: and of an element of A, which is broadcast
BROADCAST = 0.05
#: cycles to copy a vector of B, and a line of it
COPY, COPY_LINE = 8.0, 8.0
#: cycles from one line of B to the next, which does not lie beside it, from L1, L2, L3 and memory:
#: a latency, less what goes on meanwhile
NEXT_LINE = (0, 7, 16, 40)
#: rows of B ahead of which its lines are asked for, and times as many that L1 has room for, since
#: others use it; cycles from one line to the next then, from L2
ROWS_AHEAD, ROOM, ASKED_LINE = 8, 4, 1
#: how many times faster than they are used lines should come from the shared cache: others use it
FAR_LINES = 2
#: bytes of a page; pages of a B that is asked for ahead: more than a core knows at once, at most
PAGE, FEWEST_PAGES, MOST_PAGES = 4096, 96, 1024
#: how many times a copy should pay for itself: machines differ
PAYS = 2
#: multiply-adds below which other threads are not worth waking, and most of them in one part: a
#: part is not interrupted
ALONE, LONGEST = 1 << 19, 1 << 32
#: columns of a part, at least: the loops around a tile cost something
FEWEST_COLUMNS = 128


class ProductTile(NamedTuple):
    """Accumulators: rows x vectors of columns."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class Blocking:
    """A tile; how many of them a part has below and beside each other; how many parts there are."""

    tile: ProductTile
    row_tiles: int
    column_tiles: int
    parts: int


def blocking(
    product: Product, is_copied: bool, target: Target, is_streamed: bool = False
) -> Blocking:
    """The cheapest tile and the cheapest parts.

    Args:
        product: what is multiplied.
        is_copied: B is read from a copy.
        target: whose registers, caches and cores count.
        is_streamed: B is read once, column tile by column tile: each thread has columns of its own.
    """
    lanes = lanes_of(product.columns, target)
    rows, depth = product.rows or USUAL, product.depth or USUAL
    vectors = -(-(product.columns or USUAL) // lanes)
    read = vector_reads(target, lanes) if is_copied else 0.0
    tile = decide(
        "tile",
        _tiles(rows, vectors, target.vector_registers),
        lambda t: _cycles(t, rows, vectors, depth, is_copied, read) * _edges(t, rows, vectors),
    )
    batch = math.prod(USUAL if n is None else n for n in product.batch)
    work = batch * rows * vectors * lanes * depth
    cores = target.num_cores if work >= ALONE else 1
    least = max(1, work // LONGEST)
    down, across = -(-rows // tile.rows), -(-vectors // tile.vectors)
    widest = across
    if not is_streamed:
        deep = is_copied and depth_of_part(product, tile, target)
        is_far = is_copied and stays_far(tile, lanes, target)
        widest = _widest(deep or depth, lanes, is_far, target) // tile.vectors
        widest //= 4 if deep and is_far else 1

    def time(cut: tuple[int, int]) -> float:
        row_tiles, column_tiles = cut
        parts = batch * -(-down // row_tiles) * -(-across // column_tiles)
        height, width = row_tiles * tile.rows, column_tiles * tile.vectors
        part = _cycles(tile, height, width, depth, is_copied, read)
        part += COPY * depth * width if is_copied else 0
        turns = -(-parts // cores) if parts < 4 * cores else parts / cores
        return turns * part + (0 if parts >= least else math.inf) + parts

    by_columns = is_copied or is_streamed
    cut = decide(
        "tiles of a part", _cuts(down, across, max(1, widest), cores, least, by_columns), time
    )
    parts = -(-down // cut[0]) * -(-across // cut[1])
    return Blocking(tile, *cut, parts * batch if cores > 1 else 1)


@dataclass(frozen=True)
class AsItLies:
    """B is read where it lies: a line of each row after the other, again for each tile below.

    From the first cache that holds what is read meanwhile: columns of a tile where B is streamed,
    else all of a part.

    tile: results of a tile.
    lines: of each row of B, in a tile's columns.
    late: cycles by which those of a row come later than they are used.
    is_asked: they come from a core's own cache, and are asked for `ROWS_AHEAD` rows ahead.
    """

    tile: ProductTile
    lines: int
    late: float
    is_asked: bool

    @staticmethod
    def of(product: Product, is_streamed: bool, target: Target) -> AsItLies | None:
        """None where an extent is not known."""
        columns, depth = product.columns or 0, product.depth or 0
        if not (product.rows or 0) * columns * depth:
            return None
        lanes = lanes_of(columns, target)
        with Decisions():  # a tile that is only supposed is nothing to decide
            tile = blocking(product, False, target, is_streamed).tile
        width = tile.vectors * lanes
        many = width if is_streamed else max(width, _widest(depth, lanes, False, target) * lanes)
        levels = caches(target)
        rows = (depth, 4 * columns, 4 * min(many, columns))
        level = next((n for n, cache in enumerate(levels) if cache.holds(*rows)), len(levels))
        lines = -(-4 * width // LINE)
        late = NEXT_LINE[level] * lines - tile.rows * tile.vectors / target.multiply_adds
        fits = levels[0].holds(ROOM * ROWS_AHEAD, 4 * columns, 4 * width)
        fits = fits and FEWEST_PAGES < pages_of(product) <= MOST_PAGES
        is_asked = level == 1 and late > 0 and fits and not is_streamed
        return AsItLies(tile, lines, min(late, ASKED_LINE * lines) if is_asked else late, is_asked)

    def copy_pays(self, rows: int) -> bool:
        """Whether `rows` rows of C that read a copy of B save more time than the copying takes."""
        return self.late * (-(-rows // self.tile.rows) - 1) > PAYS * COPY_LINE * self.lines


def pages_of(product: Product) -> int:
    """Pages that B lies in; of rows longer than one, those of its rows."""
    return (product.depth or 0) * min(4 * (product.columns or 0), PAGE) // PAGE


def stays_far(tile: ProductTile, lanes: int, target: Target) -> bool:
    """Whether a copy of B may stay in the cache that cores share: its lines come from there in half
    of the time in which a tile multiplies them."""
    lines = tile.vectors * 4 * lanes / LINE
    step = tile.rows * tile.vectors / target.multiply_adds
    return FAR_LINES * target.far_line * lines <= step


def depth_of_part(product: Product, tile: ProductTile, target: Target) -> int | None:
    """How much of the depth is done for all tiles of a part before the next: rows of A of a tile,
    so deep, stay in L1 from one column of tiles to the next. None for all of it.

    All steps are of one size, or there is one: what sums go through then is not asked in each.
    """
    depth = product.depth
    most = target.caches[0] // (2 * 4 * tile.rows)
    if depth is None or depth <= most:
        return None
    return max((n for n in range(most // 4, most + 1) if depth % n == 0), default=None)


def _tiles(rows: int, vectors: int, registers: int) -> Iterator[ProductTile]:
    """Tiles that fit in the registers: accumulators, a step's vectors of B and one of A."""
    most = registers * 3 // 4
    for width in range(1, min(MOST_VECTORS, vectors) + 1):
        highest = 14 if width == 1 else 8
        for height in range(1, min(highest, rows) + 1):
            if height * width <= most and height * width + width + 1 <= registers:
                yield ProductTile(height, width)


def _cycles(
    tile: ProductTile, rows: int, vectors: int, depth: int, is_copied: bool, read: float
) -> float:
    """Of all tiles of a matrix; those at the edges are smaller."""
    return sum(
        many * times * _tile_cycles(height, width, depth, is_copied, read)
        for height, many in _pieces(rows, tile.rows)
        for width, times in _pieces(vectors, tile.vectors)
    )


def _edges(tile: ProductTile, rows: int, vectors: int) -> float:
    """Tiles at the edges are loops of their own: code to compile, and to load."""
    return 1 + 0.01 * (rows % tile.rows > 0) + 0.01 * (vectors % tile.vectors > 0)


def _pieces(length: int, step: int) -> list[tuple[int, int]]:
    """(size, how many) of the whole pieces and of the rest."""
    pieces = [(step, length // step), (length % step, 1)]
    return [(size, many) for size, many in pieces if size and many]


def _tile_cycles(rows: int, vectors: int, depth: int, is_copied: bool, read: float) -> float:
    """A step loads no more than it multiplies in the same time; vectors of B take `read` each at
    least. Measured: stores of a tile cost the more the more rows, each on a page of its own."""
    loads = vectors * (LOAD_COPIED if is_copied else LOAD) + rows * BROADCAST
    work = max(rows * vectors, rows + vectors, LATENCY, vectors * read)
    return (work + loads) * depth + 0.6 * rows * rows + rows * vectors


def _widest(depth: int, lanes: int, is_far: bool, target: Target) -> int:
    """Vectors of columns in a part: of what stays in the shared cache they may fill a core's share,
    of a core's own one half."""
    _, own, shared = target.caches
    room = shared // (2 * target.num_cores) if is_far else own // 2
    return max(room // (4 * depth), FEWEST_COLUMNS) // lanes


def _cuts(
    down: int, across: int, widest: int, cores: int, least: int, by_columns: bool
) -> Iterator[tuple[int, int]]:
    """(row tiles, column tiles) of a part: few parts, as many as there are cores, some more.

    Parts that lie below each other would copy the same columns of B, or fetch them, at the same
    time: `by_columns`, either the rows are cut or the columns.
    """
    fewest = -(-across // widest)
    for columns in (*range(fewest, fewest + 2 * cores), max(fewest, least)):
        beside = min(columns, across)
        for rows in (1, *range(2, 2 * cores + 1), -(-least // fewest)):
            below = min(rows, down)
            if below == 1 or beside == 1 or not by_columns:
                yield -(-down // below), -(-across // beside)
