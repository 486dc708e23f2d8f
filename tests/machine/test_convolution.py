"""The cost model of convolutions: what is taken for resnet50 and vgg19, and how pieces are cut."""

from __future__ import annotations

import pytest

from mlcnb.machine.convolution import Convolution, choices, direct, table, winograd
from mlcnb.machine.winograd import Pieces, Size, choose_pieces, register_tile
from mlcnb.target import Target


class Machine(Target):
    """A target whose caches and cores are given, so that results are those of any computer."""

    caches = (32 << 10, 1 << 20, 32 << 20)
    num_cores = 2


AVX512 = Machine({"kind": "llvm", "mcpu": "x86-64-v4"})
AVX2 = Machine({"kind": "llvm", "mcpu": "x86-64-v3"})

RESNET50 = {(64, 64, 56): 4, (128, 128, 28): 4, (256, 256, 14): 4, (512, 512, 7): 4}
VGG19 = {
    (64, 64, 224): 6,
    (64, 128, 112): 6,
    (128, 128, 112): 6,
    (128, 256, 56): 4,
    (256, 256, 56): 4,
    (256, 512, 28): 4,
    (512, 512, 28): 4,
    (512, 512, 14): 4,
}


@pytest.mark.parametrize("model", [RESNET50, VGG19])
def test_the_tile_sizes_of_two_models(model):
    found = {
        (inner, outer, size): choices(Convolution(1, inner, outer, (size, size), 3), AVX512)[0].tile
        for inner, outer, size in model
    }
    assert found == model


def test_one_by_one_is_a_matrix_product():
    (only,) = choices(Convolution(1, 64, 256, (56, 56), 1), AVX512)
    assert (only.name, only.flops) == ("gemm", 2 * 64 * 256 * 56 * 56)


def test_multiplications_saved_and_wasted():
    """F(4x4, 3x3) does 36 multiplications where the direct loops do 144; at 14 x 14, 16 tiles."""
    whole = Convolution(1, 64, 64, (56, 56), 3)
    assert direct(whole, AVX512).flops == 4 * winograd(whole, 4, AVX512).flops
    assert winograd(whole, 4, AVX512).waste == 0
    edge = winograd(Convolution(1, 256, 256, (14, 14), 3), 4, AVX512)
    assert edge.flops == 2 * 36 * 16 * 256 * 256
    assert edge.waste == pytest.approx(1 - 14 * 14 / (16 * 16))
    assert edge.weights == 4 * 36 * 256 * 256
    assert edge.transformed == 4 * 36 * 256 * 16


def test_large_weights_for_a_small_image_are_bound_by_memory():
    found = choices(Convolution(1, 512, 512, (7, 7), 3), AVX512, large_weights=1 << 30)
    assert [c.name for c in found] == ["winograd 4", "direct", "winograd 6"]
    assert [c.bound for c in found] == ["memory", "units", "memory"]
    assert not any(c.each_run for c in found)


def test_large_weights_are_transformed_by_each_run():
    """Once for all tiles, and they are as large as they were."""
    small, large = (choices(Convolution(1, 512, 512, (size, size), 3), AVX512) for size in (7, 14))
    assert [c.name for c in small] == ["winograd 4", "direct", "winograd 6"]
    assert [c.name for c in large] == ["winograd 4", "direct", "winograd 6"]
    assert [c.each_run for c in large] == [True, False, True]
    assert {c.weights for c in (*small, *large)} == {4 * 9 * 512 * 512}
    known = winograd(Convolution(1, 512, 512, (14, 14), 3), 4, AVX512)
    assert large[0].ms > known.ms
    assert table(large).splitlines()[1].endswith("units, each run transforms the weights")


#: inner and outer channels, size; ms of direct loops, of F(4x4, 3x3) with weights transformed
#: before, and by each run, where they stand in their models
MEASURED = {
    (64, 64, 56): (2.060, 0.666, 0.772),
    (128, 128, 28): (2.053, 0.676, 0.694),
    (256, 256, 14): (2.073, 0.877, 1.128),
    (512, 512, 7): (2.160, 1.367, 1.778),
    (256, 256, 56): (37.1, 9.47, 10.76),
    (512, 512, 14): (8.37, 3.26, 4.51),
    (64, 192, 56): (6.17, 1.821, 2.024),
    (64, 96, 28): (0.766, 0.253, 0.285),
    (96, 128, 14): (0.393, 0.179, 0.215),
    (192, 256, 14): (1.584, 0.749, 0.826),
    (192, 320, 7): (0.545, 0.369, 0.426),
    (224, 224, 7): (0.490, 0.323, 0.360),
    (128, 32, 14): (0.131, 0.072, 0.098),
}


@pytest.mark.parametrize("size", MEASURED, ids=str)
def test_predictions_are_near_what_was_measured(size):
    """On the machine of the constants."""
    inner, outer, places = size
    conv = Convolution(1, inner, outer, (places, places), 3)
    found = [direct(conv, AVX512), *(winograd(conv, 4, AVX512, each) for each in (False, True))]
    assert [c.ms for c in found] == pytest.approx(MEASURED[size], rel=0.15)


def test_few_tiles_leave_registers_for_a_row_of_weights():
    """Two by two tiles of 6 x 6: 24 sums, 6 weights, and two more registers."""
    small = Size(1, (2, 2), 512, 512, 6)
    assert choose_pieces(small, AVX512, plain_weights=True).whole_rows
    assert not choose_pieces(small, AVX2, plain_weights=True).whole_rows
    assert not choose_pieces(small, AVX512).whole_rows
    assert not choose_pieces(small._replace(tiles=(2, 3)), AVX512, plain_weights=True).whole_rows


def test_weights_of_each_run_are_shared_by_all_tiles():
    def pieces(size: Size) -> Pieces:
        return choose_pieces(size, AVX512, plain_weights=True)

    assert pieces(Size(1, (14, 14), 256, 256, 6)).block == (14, 14)
    assert pieces(Size(1, (4, 4), 512, 512, 6)).block == (4, 4)
    high, wide = pieces(Size(1, (28, 28), 128, 128, 6)).block  # products that fit in L2
    assert high < 28 and wide == 28


def test_the_table_reads():
    text = table(choices(Convolution(1, 64, 64, (56, 56), 3), AVX512))
    head, first, *rest = text.splitlines()
    assert head.split() == [
        "algorithm", "GFLOP", "waste", "inputs", "MB", "weights", "MB", "ms", "bound",
    ]  # fmt: skip
    assert first.startswith("* winograd 4")
    assert [line[:2] for line in rest] == ["  ", "  "]


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("tiles", [(1, 1), (2, 2), (4, 4), (7, 7), (14, 14), (19, 19), (56, 56)])
@pytest.mark.parametrize("outer", [16, 32, 48, 208, 512])
def test_register_tiles_fit(tiles, outer, target):
    size = Size(1, tiles, 64, outer, 6)
    rows, columns, vectors = register_tile(size, target)
    kept = rows * columns * vectors + vectors + (vectors > 1)
    assert kept <= target.vector_registers
    assert (outer // target.lanes("float32")) % vectors == 0
    assert rows <= tiles[0]
    assert columns <= tiles[1]


def test_all_tiles_at_once_where_weights_come_from_memory():
    """They are read once, where two rows of tiles would wait for them; not those of each run, and
    not where a vector is half a line, which is not asked for."""
    size = Size(1, (4, 4), 112, 224, 6)
    assert choose_pieces(size, AVX512)[1:3] == ((4, 4), 1)
    assert choose_pieces(size, AVX512, plain_weights=True)[1:3] == ((2, 4), 2)
    assert choose_pieces(size, AVX2)[1:3] == ((1, 4), 2)


@pytest.mark.parametrize(
    "size, pieces",
    [
        (Size(1, (14, 14), 64, 64, 6), Pieces((1, 14), (1, 14), 2, True)),
        (Size(1, (7, 7), 512, 512, 6), Pieces((7, 7), (1, 7), 2, False)),
        (Size(1, (4, 4), 64, 64, 6), Pieces((4, 4), (4, 4), 1, False)),
    ],
)
def test_pieces(size, pieces):
    """Many blocks: each by itself. Large weights: read once. Few blocks: channels are shared."""
    assert choose_pieces(size, AVX512) == pieces
