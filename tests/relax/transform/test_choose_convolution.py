"""ChooseConvolution: which convolutions change, to what, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import PassError
from mlcnb.ir.instrument import trace
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform import (
    ChooseConvolution,
    ConvertLayout,
    FoldConstant,
    convolution_choices,
)
from mlcnb.testing import evaluate
from mlcnb.tir import SizeVar
from mlcnb.tir.winograd import error_factors, error_growth


def network(size: int = 20, channels: int = 32, **attrs):
    """One convolution with a window of three, and its weights."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((channels, channels // attrs.get("groups", 1), 3, 3)).astype("float32")
    x = Var("x", tensor_info((1, channels, size, size), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            gv = bb.emit_output(op.nn.conv2d(x, const(w), **{"padding": 1, **attrs}))
        bb.emit_func_output(gv)
    return bb.finalize(), rng.standard_normal((1, channels, size, size)).astype("float32")


def names(mod) -> list[str]:
    values = [b.value for b in bindings_of(mod["main"])]
    return [v.op.name.removeprefix("relax.") for v in values if hasattr(v, "op")]


def blocked(mod):
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        return ConvertLayout()(mod)


def chosen(mod, tile_size: int = 0):
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        return FoldConstant()(ChooseConvolution(tile_size)(blocked(mod)))


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_weights_are_transformed_once(tile):
    mod, x = network()
    after = chosen(mod, tile)
    assert names(after) == [
        "layout_transform",
        "nn.contrib_conv2d_winograd_without_weight_transform",
        "layout_transform",
    ]
    (call,) = (b.value for b in bindings_of(after["main"]) if "winograd" in b.value.op.name)
    alpha = tile + 2
    assert call.args[1].data.shape == (2, alpha, alpha, 2, 16, 16)
    assert attrs_of(call).kernel_layout == "OABI16i16o"
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=0, atol=2e-4)


@pytest.mark.parametrize("channels", [17, 33, 40])
def test_weights_of_channels_that_fill_no_block_are_transformed_once_too(channels):
    """With what fills the blocks they grow to up to 25 times their size: they were transformed in
    each run (33 channels in 27 x 27: 327 us, now 74)."""
    mod, x = network(channels=channels)
    after = chosen(mod, 6)
    assert len(names(after)) == 3 and "winograd_without_weight_transform" in names(after)[1]
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=0, atol=2e-4)


def test_one_channel_s_weights_are_laid_out_once():
    """They grow to sixteen times their size."""
    w = const(np.ones((1, 512, 3, 3), np.float32))
    x = Var("x", tensor_info((1, 512, 9, 9), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            gv = bb.emit_output(op.nn.conv2d(x, w, padding=1))
        bb.emit_func_output(gv)
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        after = FoldConstant()(ConvertLayout()(bb.finalize()))
    assert names(after) == ["layout_transform", "nn.conv2d", "layout_transform"]


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_groups_that_fill_vectors_of_channels(tile):
    """AlexNet's three convolutions of two groups: 3.1 ms directly, now 1.25."""
    mod, x = network(groups=2, channels=64)
    after = chosen(mod, tile)
    assert names(after)[1] == "nn.contrib_conv2d_winograd_without_weight_transform"
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    "attrs",
    [{"strides": 2}, {"dilation": 2}, {"groups": 4}, {"groups": 2, "channels": 48}],
    ids=str,
)
def test_what_stays_as_it_is(attrs):
    before = blocked(network(**attrs)[0])
    assert ChooseConvolution(4)(before) is before


def test_groups_are_told():
    (found,) = convolution_choices(network(28, 64, groups=2)[0], "llvm -mcpu=x86-64-v4")
    assert (found.conv.inner, found.conv.outer, found.conv.groups) == (32, 64, 2)
    text = repr(convolution_choices(network(28, 64, groups=2)[0], "llvm -mcpu=x86-64-v4"))
    assert text.startswith("1 x 32 -> 64 channels, 28 x 28, 2 groups, window 3\n")
    assert not convolution_choices(network(28, 64, groups=64)[0], "llvm -mcpu=x86-64-v4")


def test_weights_that_are_not_known_stay():
    x = Var("x", tensor_info((1, 32, 20, 20), "float32"))
    w = Var("w", tensor_info((32, 32, 3, 3), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            gv = bb.emit_output(op.nn.conv2d(x, w, padding=1))
        bb.emit_func_output(gv)
    before = blocked(bb.finalize())
    assert ChooseConvolution()(before) is before


def test_large_weights_stay_as_they_are():
    mod, x = network()
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        after = ChooseConvolution(4, large_weights=1000)(blocked(mod))
    assert names(after)[2] == "nn.contrib_conv2d_winograd"
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=0, atol=2e-4)


def test_the_reasons_are_told():
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        steps = trace(ChooseConvolution(), blocked(network(56, 64)[0])).steps
    assert steps[-1].reason == "1 by winograd 4"
    ((conv, times, found),) = convolution_choices(network(56, 64)[0], "llvm -mcpu=x86-64-v4")
    assert (conv.inner, conv.places, times) == (64, (56, 56), 1)
    assert found[0].name == "winograd 4"
    text = repr(convolution_choices(network(56, 64)[0], "llvm -mcpu=x86-64-v4"))
    assert text.startswith("1 x 64 -> 64 channels, 56 x 56, window 3\n")


def test_too_few_channels_for_a_block_have_no_choice():
    """As of an image: the pass leaves them as they are, and they are not said to be otherwise."""
    ((_, _, found),) = convolution_choices(network(56, 3)[0], "llvm -mcpu=x86-64-v4")
    assert [choice.name for choice in found] == ["direct"]


def test_one_pass_option_turns_it_off():
    before = blocked(network()[0])
    assert ChooseConvolution(tile_size=-1)(before) is before
    with pytest.raises(PassError, match="ChooseConvolution: no tile_size 3"):
        ChooseConvolution(tile_size=3)(before)


def test_compiled_beside_the_meaning():
    """Odd channels fill their blocks; a residual and an activation end the kernel."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal((40, 24, 3, 3)).astype("float32") * 0.1
    x = Var("x", tensor_info((1, 24, 26, 25), "float32"))
    r = Var("r", tensor_info((1, 40, 26, 25), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, r]):
        with bb.dataflow():
            y = bb.emit(op.nn.conv2d(x, const(w), padding=1))
            gv = bb.emit_output(op.nn.relu(bb.emit(op.add(y, r))))
        bb.emit_func_output(gv)
    mod = bb.finalize()
    data = [rng.standard_normal(s).astype("float32") for s in ((1, 24, 26, 25), (1, 40, 26, 25))]
    ex = mlc.compile(mod, target="llvm")
    assert any("data_pack" in k.func.script() for k in ex.kernels.values())
    np.testing.assert_allclose(ex(*data), evaluate(mod, *data), rtol=0, atol=3e-5)


# how exact it is


def conv_of(w, size=20):
    """One convolution with these weights, (O, I, 3, 3)."""
    x = Var("x", tensor_info((1, w.shape[1], size, size), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            gv = bb.emit_output(op.nn.conv2d(x, const(w), padding=1))
        bb.emit_func_output(gv)
    return bb.finalize()


def exactly(x, w):
    """The convolution in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nihwkl,oikl->nohw", windows, w.astype(np.float64), optimize=True)


def weights(seed=0, channels=32):
    return np.random.default_rng(seed).standard_normal((channels, channels, 3, 3)).astype("float32")


def with_tiles(tile):
    """The pipeline of `compile`, with tiles of that size; -1: direct loops."""
    passes = mlc.relax.get_pipeline("default").passes
    chosen = [ChooseConvolution(tile) if isinstance(p, ChooseConvolution) else p for p in passes]
    return mlc.transform.Sequential(chosen)


@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_holds_for_an_input_beyond_all_others(tile, seed):
    w, rng = weights(seed), np.random.default_rng(seed)
    x = rng.standard_normal((1, 32, 20, 20)).astype("float32")
    x[0, 5, 9, 10] = 1e6
    found = mlc.compile(conv_of(w), relax_pipeline=with_tiles(tile))(x)
    bound = 2.0**-24 * (32 + 8 * (tile + 2) + 3) * 1e6 * error_factors(w, tile)
    error = np.abs(found - exactly(x, w)).max((0, 2, 3))
    assert (error <= bound).all()
    assert error.max() > 1e-3, "what the bound is about"


def test_direct_leaves_what_an_input_does_not_touch():
    w = weights()
    x = np.random.default_rng(0).standard_normal((1, 32, 20, 20)).astype("float32")
    far = x.copy()
    far[0, 5, 9, 10] = 1e6
    executable = mlc.compile(conv_of(w), convolution="direct")
    one, two = executable(x), executable(far)
    same = (one == two).all((0, 1))
    same[8:11, 9:12] = True
    assert same.all()
    np.testing.assert_allclose(one, exactly(x, w), rtol=0, atol=1e-4)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_no_number_stays_in_its_window(value):
    w, x = weights(), np.zeros((1, 32, 20, 20), np.float32)
    x[0, 5, 9, 10] = value
    finite = np.isfinite(mlc.compile(conv_of(w), convolution="direct")(x))
    assert finite.sum() == finite.size - 9 * 32


def test_growth():
    """Of weights alike in size, and of corners alone; of none, and of what is no number."""
    alike, corner = np.ones((8, 4, 3, 3), np.float32), np.zeros((8, 4, 3, 3), np.float32)
    corner[:, :, 0, 0] = -2
    assert [round(error_growth(alike, t)) for t in (2, 4, 6)] == [7, 63, 509]
    assert [round(error_growth(corner, t)) for t in (2, 4, 6)] == [16, 175, 1565]
    assert error_growth(0 * corner, 4) == 0
    corner[3, 2, 1, 1] = np.inf
    assert np.isnan(error_growth(corner, 4))


def test_weights_with_a_large_bound_are_left_to_the_direct_loops():
    w = weights(channels=64)
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        mod = ConvertLayout()(conv_of(w, 56))
        assert any("winograd" in name for name in names(ChooseConvolution()(mod)))
        limit = min(error_growth(w, tile) for tile in (4, 6))
        assert ChooseConvolution(max_growth=limit * 0.99)(mod) is mod
        w[0, 0, 0, 0] = np.nan
        mod = ConvertLayout()(conv_of(w, 56))
        assert ChooseConvolution()(mod) is mod


def test_ways_that_are_not_there():
    with pytest.raises(PassError) as error:
        mlc.compile(conv_of(weights()), convolution="fft")
    assert str(error.value) == "no convolution 'fft'\nhint: one of auto, direct"
    with pytest.raises(PassError, match="goes to a named pipeline"):
        mlc.compile(conv_of(weights()), relax_pipeline=FoldConstant(), convolution="direct")


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_an_open_batch_is_convolved_as_one_image(batch: int) -> None:
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((64, 64, 3, 3)) / 24).astype("f4")
    n = SizeVar("n", "int64")
    x = Var("x", tensor_info((n, 64, 28, 28), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.relu(op.nn.conv2d(x, const(w), padding=1)))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get(), target="llvm")
    assert any("winograd" in name for name in ex.kernels)
    given = rng.standard_normal((batch, 64, 28, 28)).astype("f4")
    direct = mlc.compile(bb.get(), target="llvm", convolution="direct")
    np.testing.assert_allclose(ex(given), direct(given), rtol=1e-3, atol=1e-4)
