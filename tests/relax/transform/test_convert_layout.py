"""ConvertLayout: channels in blocks, and the numbers of the plain layout, for any channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import relax
from mlcnb.op.nn.conv import correlate
from mlcnb.relax import op as R
from mlcnb.relax.expr import Constant

CHANNELS = st.sampled_from([3, 8, 16, 20, 24, 33, 40, 48])


def weight(outer: int, inner: int, window: int) -> np.ndarray:
    rng = np.random.default_rng(outer + inner)
    return rng.standard_normal((outer, inner, window, window)).astype(np.float32)


def network(channels: list[int], size: int, windows: list[int]) -> tuple[mlc.IRModule, list]:
    """One convolution after the other, with relu between them."""
    weights = [
        weight(b, a, k) for a, b, k in zip(channels[:-1], channels[1:], windows, strict=True)
    ]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, channels[0], size, size), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for w in weights:
                y = builder.emit(R.nn.conv2d(y, Constant(w), padding=w.shape[2] // 2))
                y = builder.emit(R.nn.relu(y))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get(), weights


def expected(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    y = x.astype(np.float64)
    for w in weights:
        pad = w.shape[2] // 2
        y = np.maximum(correlate(y, w, (1, 1), (pad,) * 4, (1, 1), 1), 0)
    return y


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(CHANNELS, min_size=4, max_size=4), st.integers(3, 9), st.sampled_from([1, 3]))
def test_any_numbers_of_channels(channels, size, window):
    mod, weights = network(channels, size, [window, 1, window])
    x = np.random.default_rng(size).standard_normal((1, channels[0], size, size)).astype("f")
    found = mlc.compile(mod, target="llvm")(x)
    wanted = expected(x, weights)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4 * wanted.max())


@pytest.mark.parametrize(
    "inner, layout", [(24, "OIHW16o"), (40, "OIHW16o"), (32, "OIHW16i16o"), (63, "OIHW16i16o")]
)
def test_what_fills_up_a_block_is_not_read_where_that_saves_much(inner, layout):
    """24 channels are 32 in blocks of 16: the kernel reads 24."""
    mod, _ = network([16, inner, 16], 7, [1, 1])
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        convolutions = [
            line
            for line in str(relax.transform.ConvertLayout()(mod).script()).splitlines()
            if "R.nn.conv2d" in line
        ]
    assert f'kernel_layout="{layout}"' in convolutions[-1]


@pytest.mark.parametrize("window, step", [(1, 1), (3, 2)])
def test_a_number_for_each_place_stands_in_the_window_s_loops(window, step):
    """A mask (1, 1, H, W) beside blocks, as spatial attention has it: nothing leaves its block."""
    w, pad, places = weight(32, 32, window), window // 2, -(-7 // step)
    shapes = {"x": (1, 32, 7, 7), "m": (1, 1, places, places)}
    builder = relax.BlockBuilder()
    x, mask = (relax.Var(n, relax.TensorStructInfo(s, "float32")) for n, s in shapes.items())
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            y = builder.emit(R.nn.conv2d(x, Constant(w), padding=pad, strides=step))
            out = builder.emit_output(R.multiply(y, mask))
        builder.emit_func_output(out)
    ex = mlc.compile(builder.get(), "llvm -mcpu=x86-64-v4")
    (name,) = (n for n in ex.kernels if "multiply" in n)
    text = ex.kernels[name].scheduled.script()
    assert "conv" in name and 'scope="local"' in text, "the sums stay in registers"
    assert text.count("alloc_buffer") <= 2, "a padded image, and the sums"
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(s).astype(np.float32) for s in shapes.values()]
    plain = correlate(values[0].astype(np.float64), w, (step,) * 2, (pad,) * 4, (1, 1), 1)
    np.testing.assert_allclose(
        mlc.compile(builder.get(), "llvm")(*values), plain * values[1], atol=1e-4
    )


@pytest.mark.parametrize(
    "channels, by, stays",
    [(24, 6.0, True), (32, 6.0, True), (32, None, True), (24, None, False), (24, 0.0, False)],
)
def test_a_division_stays_in_blocks_where_nothing_of_the_filling_is_divided_by_zero(
    channels, by, stays
):
    """x / 6 between convolutions, as a hard swish ends; or x / y of two of them. by: None: y."""
    first, last = weight(channels, 16, 1), weight(16, channels, 3)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 16, 7, 7), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(R.nn.conv2d(x, Constant(first)))
            other = builder.emit(R.exp(y)) if by is None else relax.const(by, "float32")
            y = builder.emit(R.divide(y, other))
            out = builder.emit_output(R.nn.conv2d(y, Constant(last), padding=1))
        builder.emit_func_output(out)
    with mlc.target.Target("llvm -mcpu=x86-64-v4"):
        text = relax.transform.ConvertLayout()(builder.get()).script()
    blocked = f"(1, {-(-channels // 16)}, 7, 7, 16)"
    (line,) = (line for line in text.splitlines() if "R.divide(" in line)
    assert (blocked in line) == stays
    if by != 0.0:
        value = np.random.default_rng(2).standard_normal((1, 16, 7, 7)).astype(np.float32)
        y = correlate(value.astype(np.float64), first, (1, 1), (0,) * 4, (1, 1), 1)
        wanted = correlate(y / (np.exp(y) if by is None else by), last, (1, 1), (1,) * 4, (1, 1), 1)
        found = mlc.compile(builder.get(), "llvm")(value)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("axis", [1, -3])
def test_channels_are_joined_in_blocks_from_whichever_end_they_are_counted(axis):
    """-3 of an image is its channels; of one in blocks, which has a dimension more, its rows."""
    w = weight(16, 16, 3)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 16, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(R.nn.conv2d(x, Constant(w), padding=1))
            both = builder.emit(R.concat((y, x), axis=axis))
            z = builder.emit(R.nn.conv2d(both, Constant(weight(16, 32, 1))))
            out = builder.emit_output(z)
        builder.emit_func_output(out)
    given = np.random.default_rng(0).standard_normal((1, 16, 6, 6)).astype("f")
    found = mlc.compile(builder.get(), target="llvm -mcpu=haswell")(given)
    first = correlate(given.astype("d"), w, (1, 1), (1,) * 4, (1, 1), 1)
    joined = np.concatenate((first, given), 1)
    wanted = correlate(joined, weight(16, 32, 1), (1, 1), (0,) * 4, (1, 1), 1)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-3)
