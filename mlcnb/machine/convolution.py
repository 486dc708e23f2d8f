"""What a 2-D convolution costs by each algorithm: the reasons why one is chosen.

    direct      as written, on channels in blocks; of a 1 x 1 window that is a matrix product
    winograd    tiles of m x m results from alpha x alpha inputs, alpha = m + window - 1

    >>> print(table(choices(Convolution(1, 64, 64, (56, 56), 3), Target("llvm"))))

Large weights stay as they are, for they would be 4 times larger, in memory and on the way from it:
each run transforms them, a row of the tile at a time, in L2.

A choice's time is what its units do, or what memory needs to bring the weights, the longer one.
The constants are cycles, fitted on one core with AVX-512 (znver4, 3.7 GHz) to 31 convolutions of
ResNet-50, VGG-19, Inception v2 and DenseNet-121, each forced to every algorithm and timed where it
stands in its model, so that weights come from memory as they do there: most predictions are within
10 % of that, of direct loops and of tiles of 4 all but three within 15 %. They are ratios of cache
and multiply-add speeds, much alike on other machines; what is compared is one choice with another
on the same machine. Narrower vectors are taken to be done side by side: two of 256 bits a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlcnb.machine.winograd import Pieces, Size, choose_pieces, register_tile, step_cycles
from mlcnb.target import Target

#: fitted: of a step of a register tile (`step_cycles`), in direct loops and in Winograd's products
DIRECT, PRODUCT = 0.89, 0.98
#: fitted: for a vector of transformed inputs and each input along its tile, with its share of
#: everything that is not a product: fused with the products, and where all are transformed first
FUSED, FIRST = 2.17, 1.66
#: fitted: for a line of transformed weights, where tasks do not follow each other on the same ones
WEIGHT_LINE = 2.5
#: fitted: for a multiply-add or another operation of a step, where a step transforms its weights
WHOLE_ROWS = 1.5
#: fitted: for a line of weights that is read or written where each run transforms them
TRANSFORM_LINE = 3.0
#: fitted: for a line of transformed inputs that each of its tasks brings from L3
INPUT_LINE = 4.0
#: bytes of weights, as they are, that are not transformed before
LARGE_WEIGHTS = 3 << 19
#: fitted: a line of weights that comes from L3 or from memory, however little is done with it
FAR_LINE = 9.5
#: not fitted: lanes of the vectors that one cycle multiplies and adds; and a nominal clock
LANES = 16
LINE, HERTZ = 64, 3.7e9
#: a larger tile must save so much: it needs more memory, which threads share, and errs more
GAIN = 0.92
#: window -> tile sizes with a small error (`mlcnb.tir.winograd`)
TILES = {3: (4, 6), 5: (4,)}


class Convolution(NamedTuple):
    """A convolution of stride 1; places: (rows, columns) of the result.

    inner: channels that are summed up, those of one of the groups; outer: channels of all results.
    """

    images: int
    inner: int
    outer: int
    places: tuple[int, int]
    window: int
    groups: int = 1

    def fills(self, lanes: int) -> bool:
        """Whether there is one group, or vectors of so many lanes hold channels of one each."""
        each = self.inner, self.outer // self.groups
        return self.groups == 1 or not any(channels % lanes for channels in each)


class Choice(NamedTuple):
    """What one algorithm costs.

    flops: of its products, what is thrown away at the edges included; waste: that part of them;
    transformed: bytes of inputs in their transformed form; weights: bytes of the weights; ms: of
    one core, as predicted; bound: what takes the time, "units" or "memory"; each_run: the weights
    are as they were, and each run transforms them.
    """

    algorithm: str
    tile: int
    flops: int
    waste: float
    transformed: int
    weights: int
    ms: float
    bound: str
    each_run: bool = False

    @property
    def name(self) -> str:
        """direct, or F(4x4, 3x3) …"""
        return f"{self.algorithm} {self.tile}" if self.tile else self.algorithm


def choices(conv: Convolution, target: Target, large_weights: int = LARGE_WEIGHTS) -> list[Choice]:
    """All choices, the one to take first; weights of more bytes are not transformed before."""
    made = [direct(conv, target)]
    each_run = made[0].weights > large_weights
    made += [winograd(conv, tile, target, each_run) for tile in TILES.get(conv.window, ())]
    best = made[0]
    for choice in made[1:]:
        if choice.ms < GAIN * best.ms:
            best = choice
    return [best, *(c for c in made if c is not best)]


def direct(conv: Convolution, target: Target) -> Choice:
    """Register tiles of a row of results, all channels and places of the window summed up."""
    rows, columns = conv.places
    chunks = -(-conv.outer // target.lanes("float32"))
    size = Size(conv.images, (rows, columns), conv.inner, conv.outer, 1, conv.groups)
    high, wide, vectors = register_tile(size._replace(tiles=(1, columns)), target)
    tiles = conv.images * rows * -(-columns // wide)
    steps = tiles * chunks // vectors * conv.window**2 * conv.inner
    cycles = DIRECT * steps * step_cycles(high * wide, vectors) * _width(target)
    flops = 2 * conv.images * rows * columns * conv.window**2 * conv.inner * conv.outer
    weights = 4 * conv.window**2 * conv.inner * conv.outer
    name = "gemm" if conv.window == 1 else "direct"
    waste = 1 - columns / (-(-columns // wide) * wide)
    return _choice(name, 0, flops, waste, 0, weights, cycles)


def winograd(conv: Convolution, tile: int, target: Target, each_run: bool = False) -> Choice:
    """The products of all places of the tile, the transforms, the weights read by each task."""
    lanes = target.lanes("float32")
    tiles = (-(-conv.places[0] // tile), -(-conv.places[1] // tile))
    alpha = tile + conv.window - 1
    size = Size(conv.images, tiles, conv.inner, conv.outer, alpha, conv.groups)
    pieces = choose_pieces(size, target, each_run)
    weights = 4 * conv.window**2 * conv.inner * conv.outer if each_run else size.weight_bytes
    data = _data(size)
    each = size.alpha * data / (4 * lanes)
    cycles = (FUSED if pieces.fused else FIRST) * each
    if pieces.whole_rows:
        cycles += _whole_rows(conv, size, lanes)
    else:
        cycles += PRODUCT * _product_cycles(size, pieces, lanes)
    cycles *= _width(target)
    if each_run and not pieces.whole_rows:
        cycles += _each_run(conv, size, pieces, target)
    if not each_run and not pieces.fused:
        again = _blocks(size, pieces) if size.weight_bytes > target.caches[1] else 1
        cycles += WEIGHT_LINE * size.weight_bytes * again / LINE
    covered = _covered(size, pieces)
    flops = 2 * size.alpha**2 * covered * conv.inner * conv.outer
    waste = 1 - conv.images * conv.places[0] * conv.places[1] / (covered * tile**2)
    made = _choice("winograd", tile, flops, waste, data, weights, cycles)
    return made._replace(each_run=each_run)


def _width(target: Target) -> float:
    """Cycles that a vector takes in the units."""
    return target.lanes("float32") / LANES


def _covered(size: Size, pieces: Pieces) -> int:
    """Tiles, with those that are thrown away at the edges."""
    high, wide = pieces.registers
    return size.images * -(-size.tiles[0] // high) * high * -(-size.tiles[1] // wide) * wide


def _blocks(size: Size, pieces: Pieces) -> int:
    """How many blocks of tiles go through all weights."""
    high, wide = pieces.block
    return size.images * -(-size.tiles[0] // high) * -(-size.tiles[1] // wide)


def _product_cycles(size: Size, pieces: Pieces, lanes: int) -> float:
    """Of the steps of all register tiles."""
    rows = pieces.registers[0] * pieces.registers[1]
    steps = _covered(size, pieces) // rows * size.alpha**2 * size.inner * -(-size.outer // lanes)
    return steps / pieces.vectors * step_cycles(rows, pieces.vectors)


def _whole_rows(conv: Convolution, size: Size, lanes: int) -> float:
    """Each step makes a row of weights from a window, and multiplies it with that of every tile."""
    tiles = size.images * size.tiles[0] * size.tiles[1]
    operations = size.alpha * tiles + conv.window**2 + 2 * size.alpha
    return WHOLE_ROWS * size.alpha * conv.inner * -(-conv.outer // lanes) * operations


def _each_run(conv: Convolution, size: Size, pieces: Pieces, target: Target) -> float:
    """Weights are read for each row of the tile, written, and read; inputs by each task."""
    plain, data = 4 * conv.window**2 * conv.inner * conv.outer, _data(size)
    lines = _blocks(size, pieces) * (size.alpha * plain + size.weight_bytes) / LINE
    tasks = -(-conv.outer // (target.lanes("float32") * pieces.vectors))
    far = INPUT_LINE * data * tasks / LINE if data > target.caches[1] else 0
    return TRANSFORM_LINE * lines + far


def _data(size: Size) -> int:
    """Bytes of all transformed inputs."""
    return size.data_bytes(size.images * size.tiles[0] * size.tiles[1])


def _choice(
    name: str,
    tile: int,
    flops: int,
    waste: float,
    transformed: int,
    weights: int,
    cycles: float,
) -> Choice:
    memory = FAR_LINE * weights / LINE
    bound = "memory" if memory > cycles else "units"
    ms = max(cycles, memory) / HERTZ * 1e3
    return Choice(name, tile, flops, waste, transformed, weights, ms, bound)


def table(found: Sequence[Choice]) -> str:
    """The choices as lines of text; the first is the one that is taken."""
    head = f"{'':2}{'algorithm':<12}{'GFLOP':>8}{'waste':>8}{'inputs MB':>11}{'weights MB':>12}"
    lines = [f"{head}{'ms':>9}  bound"]
    for number, c in enumerate(found):
        mark = "* " if number == 0 else "  "
        lines.append(
            f"{mark}{c.name:<12}{c.flops / 1e9:8.3f}{c.waste:8.0%}{c.transformed / 1e6:11.2f}"
            f"{c.weights / 1e6:12.2f}{c.ms:9.3f}  {c.bound}"
            + ", each run transforms the weights"
            * c.each_run
        )
    return "\n".join(lines)
