"""FillGroups: groups of channels in blocks of a vector's lanes, and ConvertLayout behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.transform import ConvertLayout, FillGroups
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from mlcnb.tir import SizeVar
from tests.relax.harness import check_pass


def test_channels_and_groups_are_filled_up() -> None:
    @R.function
    def before(x: R.Tensor((1, 9, 6, "w"), "float32"), w: R.Tensor((6, 3, 3, 3), "float32")):
        with R.dataflow():
            gv = R.nn.conv2d(x, w, groups=3)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 9, 6, "n"), "float32"), w: R.Tensor((6, 3, 3, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            x1 = R.reshape(x, (1, 3, 3, 6, n))
            x2 = R.nn.pad(x1, (0, 0, 0, 1, 0, 1, 0, 0, 0, 0))
            x3 = R.reshape(x2, (1, 16, 6, n))
            w1 = R.reshape(w, (3, 2, 3, 3, 3))
            w2 = R.nn.pad(w1, (0, 1, 0, 2, 0, 1, 0, 0, 0, 0))
            w3 = R.reshape(w2, (16, 4, 3, 3))
            y = R.nn.conv2d(x3, w3, groups=4)
            y1 = R.reshape(y, (1, 4, 4, 4, n - 2))
            y2 = R.strided_slice(y1, [1, 2], [0, 0], [3, 2])
            gv = R.reshape(y2, (1, 6, 4, n - 2))
            R.output(gv)
        return gv

    check_pass(FillGroups(block=16), before, after)


def test_what_lies_in_blocks_and_what_is_no_group_stays() -> None:
    @R.function
    def main(
        x: R.Tensor((1, 64, 6, 6), "float32"),
        dense: R.Tensor((8, 64, 3, 3), "float32"),
        eight: R.Tensor((64, 8, 3, 3), "float32"),
        wide: R.Tensor((128, 32, 3, 3), "float32"),
        each: R.Tensor((64, 1, 3, 3), "float32"),
    ):
        with R.dataflow():
            a = R.nn.conv2d(x, dense)
            b = R.nn.conv2d(x, eight, groups=8)
            c = R.nn.conv2d(x, wide, groups=2)
            d = R.nn.conv2d(x, each, groups=64)
            R.output(a, b, c, d)
        return (a, b, c, d)

    mod = IRModule.from_expr(main)
    assert FillGroups(block=16)(mod) is mod


@st.composite
def convolutions(draw: Any) -> tuple[IRModule, list[np.ndarray]]:
    """A grouped convolution with constant weights, and something behind it."""
    groups = draw(st.integers(2, 6))
    inner, each = (
        draw(st.sampled_from([2, 3, 4, 8, 12, 16, 24])),
        draw(st.sampled_from([1, 2, 4, 5, 16])),
    )
    size = draw(st.tuples(st.integers(3, 6), st.integers(3, 9)))
    window = draw(st.integers(1, 3))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, groups * inner, *size)).astype("float32")
    w = rng.standard_normal((groups * each, inner, window, window)).astype("float32")
    width = draw(st.sampled_from([SizeVar("w", "int64"), size[1]]))
    data = Var("x", tensor_info((*x.shape[:3], width), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [data]):
        with bb.dataflow():
            stride, pad = draw(st.integers(1, 2)), draw(st.integers(0, 1))
            y = bb.emit(op.nn.conv2d(data, const(w), groups=groups, strides=stride, padding=pad))
            y = bb.emit(op.nn.relu(y))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get(), [x]


@given(made=convolutions(), block=st.sampled_from([4, 8, 16]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_numbers_are_the_same(made: tuple[IRModule, list[np.ndarray]], block: int) -> None:
    mod, arrays = made
    after = ConvertLayout(block=block)(FillGroups(block=block)(mod))
    assert_same_results(evaluate(mod, *arrays), evaluate(after, *arrays), 1e-4, 1e-4)


@pytest.mark.parametrize(
    "groups, inner, each", [(8, 8, 8), (16, 4, 8), (4, 8, 16), (5, 24, 24), (3, 5, 7)]
)
def test_compiled_they_are_in_blocks_and_keep_infinities_apart(
    groups: int, inner: int, each: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, groups * inner, 9, 11)).astype("float32")
    w = rng.standard_normal((groups * each, inner, 3, 3)).astype("float32")
    x[0, :inner] = np.inf
    data = Var("x", tensor_info(x.shape, "float32"))
    bb = BlockBuilder()
    with bb.function("main", [data]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.conv2d(data, const(w), groups=groups, padding=1))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get())
    found = np.asarray(ex(x))
    assert not np.isfinite(found[0, :each]).all()
    np.testing.assert_allclose(
        found[0, each:], evaluate(bb.get(), x)[0, each:], rtol=1e-3, atol=1e-4
    )
    blocks = [k for k in ex.kernels.values() if "conv2d" in k.name]
    assert blocks and all("NCHWc" in str(k.func) for k in blocks)
