"""ConvTransposeToConv: the phases of a transposed convolution are convolutions of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.operator import called
from mlcnb.relax.transform import ConvTransposeToConv
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.harness import check_pass

TRANSPOSED = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}


def test_phases_of_one_size_are_channels_of_one_convolution() -> None:
    @R.function
    def before(x: R.Tensor(("n", 4, "h", 5), "float32"), w: R.Tensor((4, 3, 2, 4), "float32")):
        with R.dataflow():
            gv = R.nn.conv2d_transpose(x, w, strides=(2, 2), padding=(0, 1, 0, 1))
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor(("n", 4, "h", 5), "float32"), w: R.Tensor((4, 3, 2, 4), "float32")):
        n, h = T.int64(), T.int64()
        with R.dataflow():
            w1 = R.reshape(w, (1, 4, 3, 1, 2, 2, 2))
            w3 = R.flip(w1, axis=5)
            w4 = R.permute_dims(w3, axes=[0, 2, 4, 6, 1, 3, 5])
            w5 = R.reshape(w4, (12, 4, 1, 2))
            y = R.nn.conv2d(x, w5, padding=(0, 1, 0, 1))
            y1 = R.reshape(y, (n, 3, 2, 2, h, 6))
            y2 = R.permute_dims(y1, axes=[0, 1, 4, 2, 5, 3])
            y3 = R.reshape(y2, (n, 3, h * 2, 12))
            gv = R.strided_slice(y3, axes=[3], begin=[1], end=[11])
            R.output(gv)
        return gv

    check_pass(ConvTransposeToConv(), before, after)


def test_phases_of_other_sizes_are_convolutions_of_their_own() -> None:
    kernel = np.arange(12, dtype="float32").reshape(2, 2, 3)

    @R.function
    def before(x: R.Tensor((1, 2, 7), "float32")):
        with R.dataflow():
            gv = R.nn.conv1d_transpose(x, R.const(kernel), strides=2, padding=1, output_padding=1)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 2, 7), "float32")):
        with R.dataflow():
            a = R.nn.conv1d(x, R.const(kernel[:, :, 1:2].swapaxes(0, 1).copy()))
            b = R.nn.conv1d(x, R.const(kernel[:, :, 2::-2].swapaxes(0, 1).copy()), padding=(0, 1))
            y = R.concat((a, b), axis=1)
            y1 = R.reshape(y, (1, 2, 2, 7))
            y2 = R.permute_dims(y1, axes=[0, 2, 3, 1])
            gv = R.reshape(y2, (1, 2, 14))
            R.output(gv)
        return gv

    check_pass(ConvTransposeToConv(), before, after)


def test_others_stay() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 4, 9, 9), "float32"), w: R.Tensor((4, 4, 3, 3), "float32"),
                 v: R.Tensor((4, 4, 1, 1), "float32"), last: R.Tensor((1, 9, 9, 4), "float32"),
                 z: R.Tensor(ndim=4, dtype="float32")):  # fmt: skip
            with R.dataflow():
                apart = R.nn.conv2d_transpose(x, w, strides=2, dilation=2)
                gaps = R.nn.conv2d_transpose(x, v, strides=2)
                beside = R.nn.conv2d_transpose(last, w, data_layout="NHWC")
                outside = R.nn.conv2d_transpose(x, w, strides=2, padding=2)
                unknown = R.nn.conv2d_transpose(z, w)
                conv = R.nn.conv2d(x, w)
                R.output(apart, gaps, beside, outside, unknown, conv)
            return (apart, gaps, beside, outside, unknown, conv)

    assert ConvTransposeToConv()(Mod) is Mod


@st.composite
def nets(draw: Any, kinds: Any = ("float32", "float64", "int32", "float16")) -> Any:
    """A transposed convolution, its weights a constant or given, its sizes open or known."""
    rank = draw(st.integers(1, 3))
    kind, groups = draw(st.sampled_from(kinds)), draw(st.sampled_from([1, 2, 4]))
    size = st.tuples(*[st.integers(1, 5)] * rank)
    strides, kernel, data = draw(st.tuples(*[st.integers(1, 3)] * rank)), draw(size), draw(size)
    pads = draw(st.tuples(*[st.integers(0, 3)] * (2 * rank)))
    more = [draw(st.integers(0, s - 1)) for s in strides]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    outer = draw(st.integers(1, 3))
    x = rng.integers(-4, 5, (draw(st.integers(1, 2)), 4, *data)).astype(kind)
    w = rng.integers(-4, 5, (4, outer, *kernel)).astype(kind)
    dims: list[Any] = list(x.shape)
    if draw(st.booleans()):
        dims = [
            mlc.tir.Var(n, "int64") if at != 1 else 4 for at, n in enumerate("nchwd"[: rank + 2])
        ]
    a, b = Var("x", tensor_info(tuple(dims), kind)), Var("w", tensor_info(w.shape, kind))
    is_given = draw(st.booleans())
    bb = BlockBuilder()
    with bb.function("main", [a, b] if is_given else [a]):
        with bb.dataflow():
            weight = b if is_given else const(w)
            try:
                y = bb.emit(TRANSPOSED[rank](a, weight, strides=strides, padding=pads,
                                             output_padding=more, groups=groups))  # fmt: skip
            except MLCError:  # nothing is left of it
                assume(False)
            out = bb.emit_output(op.nn.relu(y))
        bb.emit_func_output(out)
    return bb.get(), [x, w] if is_given else [x]


SLOW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@given(made=nets())
@SLOW
def test_the_numbers_are_the_same(made: tuple[IRModule, list[np.ndarray]]) -> None:
    mod, arrays = made
    try:
        wanted = evaluate(mod, *arrays)
    except MLCError:
        assume(False)
    after = ConvTransposeToConv()(mod)
    assert mlc.relax.analysis.well_formed(after)
    assert_same_results(wanted, evaluate(after, *arrays), 1e-6, 1e-6)


@pytest.mark.parametrize("kernel", [2, 3, 4, 5])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_no_tap_is_made_up(kernel: int, bad: float) -> None:
    """Zero times infinity is no number: what a tap does not reach stays as it was."""
    x = np.ones((1, 2, 6, 6), "float32")
    x[0, 1, 2, 3] = bad
    w = np.ones((2, 3, kernel, kernel), "float32")
    a = Var("x", tensor_info(x.shape, "float32"))
    bb = BlockBuilder()
    with bb.function("main", [a]):
        with bb.dataflow():
            more = kernel % 2
            out = bb.emit_output(op.nn.conv2d_transpose(a, const(w), strides=2, padding=1,
                                                        output_padding=more))  # fmt: skip
        bb.emit_func_output(out)
    mod = bb.get()
    wanted, found = evaluate(mod, x), evaluate(ConvTransposeToConv()(mod), x)
    full = np.zeros((1, 3, 12 + 2 * kernel, 12 + 2 * kernel), "float32")
    for i, j in np.ndindex(6, 6):
        full[:, :, 2 * i : 2 * i + kernel, 2 * j : 2 * j + kernel] += x[0, :, i, j].sum()
    at = slice(1, 1 + wanted.shape[2])
    np.testing.assert_array_equal(found, full[:, :, at, at])
    np.testing.assert_array_equal(mlc.compile(mod)(x), found)


@pytest.mark.parametrize("shape", [(1, 24, 9, 7), (1, 24, "h", "w")], ids=["known", "open"])
def test_a_compiled_one_has_no_spread_out_input(shape: Any) -> None:
    """The kernels are those of convolutions: none puts zeros between the elements of its input."""
    rng = np.random.default_rng(0)
    dims = [mlc.tir.Var(d, "int64") if isinstance(d, str) else d for d in shape]
    a = Var("x", tensor_info(tuple(dims), "float32"))
    w = rng.normal(size=(24, 16, 2, 2)).astype("float32")
    bb = BlockBuilder()
    with bb.function("main", [a]):
        with bb.dataflow():
            y = bb.emit(op.nn.conv2d_transpose(a, const(w), strides=2))
            out = bb.emit_output(op.nn.relu(y))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get())
    names = " ".join(ex.kernels)
    assert "conv2d_transpose" not in names
    assert "conv2d" in names
    x = rng.normal(size=(1, 24, 9, 7)).astype("float32")
    wanted = np.zeros((1, 16, 18, 14), "float64")
    for i, j in np.ndindex(2, 2):
        wanted[:, :, i::2, j::2] = np.einsum("nchw,co->nohw", x.astype("float64"), w[:, :, i, j])
    np.testing.assert_allclose(ex(x), np.maximum(wanted, 0), 1e-5, 1e-5)


def test_provenance_is_kept() -> None:
    @R.function
    def main(x: R.Tensor((1, 2, 7), "float32"), w: R.Tensor((2, 2, 2), "float32")):
        y = R.nn.conv1d_transpose(x, w, strides=2)
        return y

    mod = IRModule.from_expr(main)
    (before,) = bindings_of(mod["main"])
    convs = [
        b.value
        for b in bindings_of(ConvTransposeToConv()(mod)["main"])
        if called(b.value).op_name == "relax.nn.conv1d"
    ]
    assert [c.span for c in convs] == [before.value.span]
