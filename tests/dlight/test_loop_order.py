"""The order in which tiles are gone through: what is touched, how often, which order is best."""

from __future__ import annotations

from mlcnb.dlight.loop_order import Tiles
from mlcnb.dlight.register_tiles import Summed
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from tests.dlight.test_sums import einsum
from tests.tir.schedule.test_winograd import convolution

ZEN = Target("llvm -mcpu=znver4")


def tiles_of(func, tile):
    """What a tile of a function's only block touches; of what is summed up, all."""
    sch = Schedule(func)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    summed = Summed.of(sch.get(block))
    each = tuple(n if n else size for n, size in zip(tile, summed.extents, strict=True))
    return Tiles(summed.extents, each, (*summed.reads, summed.result), summed.nbytes)


def test_bytes_in_whole_lines():
    """Of 4 x 32 results of a product over 64 steps: 4 rows of A, 64 of B."""
    tiles = tiles_of(einsum("ik,kj->ij", i=128, k=64, j=256), (4, 32, 0))
    assert [tiles.size(n, ()) for n in range(3)] == [4 * 64 * 4, 64 * 32 * 4, 4 * 32 * 4]
    assert tiles.size(0, (0,)) == 128 * 64 * 4
    assert tiles.size(1, (0,)) == 64 * 32 * 4
    # rows that are touched whole lie one behind the other; of others, each begins a line
    short = tiles_of(einsum("ik,kj->ij", i=8, k=3, j=64), (4, 16, 0))
    assert short.size(0, ()) == 64
    assert short.size(1, ()) == 3 * 16 * 4
    assert tiles_of(einsum("ik,kj->ij", i=8, k=3, j=64), (4, 8, 0)).size(1, ()) == 3 * 16 * 4


def test_bytes_of_windows_that_overlap():
    """7 places of a window of 3 rows are 9 rows of the image."""
    tiles = tiles_of(convolution(1, 8, 32, (28, 32)), (1, 16, 7, 16, 0, 0, 0))
    image, weights, result = (tiles.size(n, ()) for n in range(3))
    assert image == 8 * 9 * 32 * 4  # 18 columns lie in two lines
    assert weights == 16 * 8 * 3 * 3 * 4
    assert result == 16 * 7 * 16 * 4


def test_what_does_not_move_is_brought_once():
    tiles = tiles_of(einsum("ik,kj->ij", i=128, k=64, j=256), (4, 32, 0))
    assert tiles.brought(0, (0, 1)) == 32  # A stays while the columns go on
    assert tiles.brought(0, (1, 0)) == 32 * 8
    assert tiles.brought(1, (0, 1)) == 32 * 8
    assert tiles.brought(2, ()) == 1


def test_large_images_stay_for_all_channels():
    """Rows of an image of 13 MB are read for all channels, then the next rows."""
    tiles = tiles_of(convolution(1, 64, 64, (224, 224)), (1, 4, 4, 16, 0, 0, 0))
    order, cycles = tiles.best((3, 0, 1, 2), ZEN)
    assert order.index(1) > order.index(2)
    assert cycles == tiles.cycles(order, ZEN)
    assert cycles < 0.7 * tiles.cycles((0, 1, 2, 3), ZEN)


def test_large_weights_pass_by_once():
    """Weights of 9 MB and an image of 0.5 MB: all places of some channels first."""
    tiles = tiles_of(convolution(1, 512, 512, (14, 14)), (1, 32, 1, 14, 0, 0, 0))
    order, _ = tiles.best((1, 0, 2, 3), ZEN)
    assert order.index(1) < order.index(2)


def test_all_orders_of_equal_cost_leave_the_axes_in_order():
    tiles = tiles_of(einsum("ik,kj->ij", i=8, k=4, j=32), (4, 16, 0))
    assert tiles.best((1, 0), ZEN)[0] == (0, 1)


def test_threads_do_not_share_lines():
    """Tiles of 14 columns end inside lines: threads take rows or channels, never columns."""
    tiles = tiles_of(convolution(1, 64, 64, (56, 56)), (1, 32, 1, 14, 0, 0, 0))
    order, _ = tiles.best((1, 0, 2, 3), ZEN)
    first = next(a for a in order if tiles.extents[a] > tiles.tile[a])
    assert first != 3
    alone = tiles_of(einsum("ik,kj->ij", i=4, k=8, j=64), (4, 16, 0))
    assert alone.best((1, 0), ZEN)[0] == (0, 1)
