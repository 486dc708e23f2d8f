"""How a Winograd convolution is cut into pieces that fit registers and caches.

block       tiles whose transformed inputs one task makes and uses: they stay in L2
registers   tiles x vectors of output channels whose products are summed in registers
fused       True: each task transforms its own block, then multiplies with all weights
            False: all inputs are transformed first; then tasks share blocks and channels,
            so that large weights are read as few times as can be
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mlcnb.machine.cache import LINE
from mlcnb.target import Target

#: tasks for each core, and the part of them that may be missing in the last round
TASKS, IDLE = 2, 0.1
#: tiles of a block where all inputs are transformed first
LARGEST_BLOCK = 64


class Pieces(NamedTuple):
    """(rows, columns) of tiles in a block and in registers; vectors of channels in registers.

    whole_rows: registers hold the products of a row of the tile, for the weights of that row are
    transformed at each step of the sum.
    """

    block: tuple[int, int]
    registers: tuple[int, int]
    vectors: int
    fused: bool
    whole_rows: bool = False


class Size(NamedTuple):
    """tiles: (rows, columns) of one image; inner, outer: channels that are summed up, those of all
    results; alpha: inputs along a tile; groups: so many times `inner` are the image's channels.
    """

    images: int
    tiles: tuple[int, int]
    inner: int
    outer: int
    alpha: int
    groups: int = 1

    @property
    def weight_bytes(self) -> int:
        """Of the transformed weights."""
        return 4 * self.alpha**2 * self.inner * self.outer

    def data_bytes(self, tiles: int) -> int:
        """Of so many transformed tiles of inputs."""
        return 4 * self.alpha**2 * self.inner * self.groups * tiles


def choose_pieces(size: Size, target: Target, plain_weights: bool = False) -> Pieces:
    """The pieces for a convolution of that size; `plain_weights`: each task transforms its own."""
    _, second, third = target.caches
    made_before = not plain_weights
    cold = made_before and 4 * target.lanes("float32") >= LINE
    rows, columns, vectors = register_tile(size, target, cold)
    of_fused = register_tile(size, target, cold, fused=True)
    for high, wide, deep in (of_fused, (rows, columns, vectors)):
        tasks = size.images * -(-size.tiles[0] // high) * -(-size.tiles[1] // wide)
        fits = size.weight_bytes <= third // 2 and size.data_bytes(high * wide) <= second
        if made_before and fits and _is_even(tasks, target.num_cores):
            return Pieces((high, wide), (high, wide), deep, True)
    if made_before and size.weight_bytes <= second:
        return Pieces((rows, columns), (rows, columns), vectors, False)
    if plain_weights and has_whole_rows(size, target):
        return Pieces(size.tiles, size.tiles, 1, False, whole_rows=True)
    if plain_weights:
        return Pieces(_shared_weights(size, target), (rows, columns), vectors, False)
    wide = columns * max(1, min(size.tiles[1], LARGEST_BLOCK) // columns)
    high = rows * max(1, min(size.tiles[0], LARGEST_BLOCK // wide) // rows)
    return Pieces((high, wide), (rows, columns), vectors, False)


def has_whole_rows(size: Size, target: Target) -> bool:
    """True if registers hold a row of the tile's products of all tiles, a row of the transformed
    weights, and two more."""
    tiles = size.tiles[0] * size.tiles[1]
    return size.alpha * (tiles + 1) + 2 <= target.vector_registers


def _shared_weights(size: Size, target: Target) -> tuple[int, int]:
    """The block for weights that each task transforms: all tiles, so that it is done once; rows of
    them where their products would not fit in L2, or cores would be idle.
    """
    rows, columns, vectors = register_tile(size, target)
    lanes = target.lanes("float32")
    parts = size.images * -(-size.outer // (lanes * vectors))
    high = -(-size.tiles[0] // rows)
    for each in range(high, 0, -1):
        tiles = each * rows * -(-size.tiles[1] // columns) * columns
        fits = 4 * size.alpha**2 * tiles * vectors * lanes <= target.caches[1]
        if fits and _is_even(parts * -(-high // each), target.num_cores):
            return each * rows, -(-size.tiles[1] // columns) * columns
    return rows, columns


def _is_even(tasks: int, cores: int) -> bool:
    """True if all cores have much the same to do."""
    rounds = -(-tasks // cores)
    return rounds >= TASKS and tasks >= (1 - IDLE) * rounds * cores


def register_tile(
    size: Size, target: Target, cold: bool = False, fused: bool = False
) -> tuple[int, int, int]:
    """(rows, columns, vectors): the fewest instructions for all tiles and channels.

    cold: the weights come from memory, the first time they are read, each vector a line, which is
    asked for and comes while tiles are multiplied. fused: each tile reads all of them, and lines
    that L2 does not hold cost a little.
    """
    chunks = -(-size.outer // target.lanes("float32")) // size.groups
    is_far = fused and size.weight_bytes > target.caches[1]
    lines = (target.memory_line, target.far_line * is_far) if cold else (0.0, 0.0)
    first, later = (line * target.multiply_adds for line in lines)

    def cost(tile: tuple[int, int, int]) -> tuple[float, float, int]:
        rows, columns, vectors = tile
        times = size.images * -(-size.tiles[0] // rows) * -(-size.tiles[1] // columns)
        step = step_cycles(rows * columns, vectors) / vectors
        return max(step, first) + (times - 1) * (step + later), step, rows

    return min(_candidates(size.tiles, chunks, target.vector_registers), key=cost)


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles for one step of the sum: multiply-adds, or waiting for the last one to be done.

    Inputs come from L1 in a multiply-add's operand, almost for nothing; weights from L2.
    """
    return max(rows * vectors + 0.25 * rows + vectors, 10)


def _candidates(
    tiles: tuple[int, int], chunks: int, registers: int
) -> Iterator[tuple[int, int, int]]:
    most = registers - 4 if registers > 16 else registers - 3
    for vectors in (v for v in (1, 2, 3, 4) if chunks % v == 0):
        for columns in range(1, min(tiles[1], most // vectors) + 1):
            for rows in range(1, min(tiles[0], most // vectors // columns) + 1):
                kept = rows * columns * vectors + vectors + (vectors > 1)
                if kept <= registers:
                    yield rows, columns, vectors
