"""What a 2-D convolution costs by each algorithm: the reasons why one is chosen.

    direct      as written, on channels in blocks; of a 1 x 1 window that is a matrix product
    winograd    tiles of m x m results from alpha x alpha inputs, alpha = m + window - 1

    >>> print(table(choices(Convolution(1, 64, 64, (56, 56), 3), Target("llvm"))))

Large weights stay as they are, for they would be 4 times larger, in memory and on the way from it:
each run transforms them, a row of the tile at a time, in L2.

A choice's time is the sum of what its units do, or what memory needs to bring the weights: the
longer one. The constants are cycles, fitted to convolutions of nine models on one core with
AVX-512 (znver4, 3.7 GHz). Measured again on 14 convolutions, 7 x 7 to 112 x 112, 64 to 512
channels, alone: half of the predictions of direct loops are within 4 % of the time measured and
nine of ten within 14 %; of Winograd's algorithm 11 % and 20 % where each run transforms the
weights, 9 % where they are transformed before, but 70 % too long at 7 x 7, where a benchmark keeps
in L3 what a model has to bring from memory. They are ratios of cache and multiply-add speeds, much
alike on other machines; what is compared is one choice with another on the same machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlcnb.machine.winograd import Size, choose_pieces, register_tile, step_cycles
from mlcnb.target import Target

#: fitted: of a step of a register tile (`step_cycles`), in direct loops and in Winograd's products
DIRECT, PRODUCT = 0.84, 0.98
#: fitted: for a vector of transformed inputs and each input along its tile, with its share of
#: everything that is not a product: fused with the products, and where all are transformed first
FUSED, FIRST = 2.17, 1.66
#: fitted: for a line of transformed weights, where tasks do not follow each other on the same ones
WEIGHT_LINE = 2.5
#: fitted: for a line of weights that is read or written where each run transforms them
TRANSFORM_LINE = 3.0
#: fitted: for a line of transformed inputs that each of its tasks brings from L3
INPUT_LINE = 4.0
#: bytes of weights, as they are, that are not transformed before
LARGE_WEIGHTS = 3 << 19
#: not fitted: a line of weights at 40 GB/s, and at 18 where they fill half of L3 and each run
#: brings them from memory; and a nominal clock
NEAR_LINE, FAR_LINE = 6.0, 13.0
LINE, HERTZ = 64, 3.7e9
#: a larger tile must save so much: it needs more memory, which threads share, and errs more
GAIN = 0.92
#: window -> tile sizes with a small error (`mlcnb.op.nn._winograd`)
TILES = {3: (4, 6), 5: (4,)}


class Convolution(NamedTuple):
    """A convolution of stride 1 over dense channels; places: (rows, columns) of the result."""

    images: int
    inner: int
    outer: int
    places: tuple[int, int]
    window: int


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
    size = Size(conv.images, (rows, columns), conv.inner, conv.outer, 1)
    high, wide, vectors = register_tile(size._replace(tiles=(1, columns)), target)
    tiles = conv.images * rows * -(-columns // wide)
    steps = tiles * chunks // vectors * conv.window**2 * conv.inner
    cycles = DIRECT * steps * step_cycles(high * wide, vectors)
    flops = 2 * conv.images * rows * columns * conv.window**2 * conv.inner * conv.outer
    weights = 4 * conv.window**2 * conv.inner * conv.outer
    name = "gemm" if conv.window == 1 else "direct"
    waste = 1 - columns / (-(-columns // wide) * wide)
    return _choice(name, 0, flops, waste, 0, weights, cycles, target)


def winograd(conv: Convolution, tile: int, target: Target, each_run: bool = False) -> Choice:
    """The products of all places of the tile, the transforms, the weights read by each task."""
    lanes = target.lanes("float32")
    tiles = (-(-conv.places[0] // tile), -(-conv.places[1] // tile))
    size = Size(conv.images, tiles, conv.inner, conv.outer, tile + conv.window - 1)
    pieces = choose_pieces(size, target, each_run)
    high, wide = pieces.registers
    covered = conv.images * -(-tiles[0] // high) * high * -(-tiles[1] // wide) * wide
    steps = covered // (high * wide) * size.alpha**2 * conv.inner * -(-conv.outer // lanes)
    count = conv.images * tiles[0] * tiles[1]
    blocks = conv.images * -(-tiles[0] // pieces.block[0]) * -(-tiles[1] // pieces.block[1])
    cycles = PRODUCT * steps / pieces.vectors * step_cycles(high * wide, pieces.vectors)
    each = size.alpha * size.data_bytes(count) / (4 * lanes)
    cycles += (FUSED if pieces.fused else FIRST) * each
    weights = size.weight_bytes
    if each_run:
        weights = 4 * conv.window**2 * conv.inner * conv.outer
        cycles += TRANSFORM_LINE * blocks * (size.alpha * weights + size.weight_bytes) / LINE
        if size.data_bytes(count) > target.caches[1]:
            tasks = -(-conv.outer // (lanes * pieces.vectors))
            cycles += INPUT_LINE * size.data_bytes(count) * tasks / LINE
    elif not pieces.fused:
        cycles += WEIGHT_LINE * size.weight_bytes * blocks / LINE
    flops = 2 * size.alpha**2 * covered * conv.inner * conv.outer
    waste = 1 - conv.images * conv.places[0] * conv.places[1] / (covered * tile**2)
    data = size.data_bytes(count)
    made = _choice("winograd", tile, flops, waste, data, weights, cycles, target)
    return made._replace(each_run=each_run)


def _choice(
    name: str,
    tile: int,
    flops: int,
    waste: float,
    transformed: int,
    weights: int,
    cycles: float,
    target: Target,
) -> Choice:
    far = weights > target.caches[2] // 2
    memory = (FAR_LINE if far else NEAR_LINE) * weights / LINE
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
