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


@pytest.mark.parametrize(
    "attrs", [{"strides": 2}, {"dilation": 2}, {"groups": 2}], ids=lambda a: next(iter(a))
)
def test_what_stays_as_it_is(attrs):
    before = blocked(network(**attrs)[0])
    assert ChooseConvolution(4)(before) is before


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
