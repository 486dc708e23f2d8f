"""ConvByPlanes: 3-D convolutions as 2-D ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import Sequential
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import tensor_info
from mlcnb.relax.transform import ConvByPlanes, DeadCodeElimination
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from mlcnb.tir import SizeVar
from tests.relax.harness import check_pass


def test_planes_are_channels_of_those_beside_them() -> None:
    @R.function
    def before(x: R.Tensor((1, 4, "d", 6, 6), "float32"), w: R.Tensor((8, 2, 2, 3, 3), "float32")):
        with R.dataflow():
            gv = R.nn.conv3d(x, w, strides=(2, 1, 1), padding=(1, 1, 1, 1, 1, 1), groups=2)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 4, "d", 6, 6), "float32"), w: R.Tensor((8, 2, 2, 3, 3), "float32")):
        d = T.int64()
        with R.dataflow():
            p = R.nn.pad(x, (0, 0, 0, 0, 1, 1, 0, 0, 0, 0))
            a = R.strided_slice(p, [2], [0], [d // 2 * 2 + 1], [2], assume_inbound=True)
            b = R.strided_slice(p, [2], [1], [d // 2 * 2 + 2], [2], assume_inbound=True)
            a1 = R.reshape(a, (1, 2, 2, d // 2 + 1, 6, 6))
            b1 = R.reshape(b, (1, 2, 2, d // 2 + 1, 6, 6))
            c = R.concat((a1, b1), axis=2)
            c1 = R.reshape(c, (1, 8, d // 2 + 1, 6, 6))
            w1 = R.permute_dims(w, axes=[0, 2, 1, 3, 4])
            w2 = R.reshape(w1, (8, 4, 3, 3))
            c2 = R.permute_dims(c1, axes=[0, 2, 1, 3, 4])
            c3 = R.reshape(c2, (d // 2 + 1, 8, 6, 6))
            y = R.nn.conv2d(c3, w2, padding=(1, 1, 1, 1), groups=2)
            y1 = R.reshape(y, (1, d // 2 + 1, 8, 6, 6))
            gv = R.permute_dims(y1, axes=[0, 2, 1, 3, 4])
            R.output(gv)
        return gv

    check_pass(Sequential([ConvByPlanes(), DeadCodeElimination()]), before, after)


def test_other_layouts_and_dtypes_stay() -> None:
    @R.function
    def main(
        x: R.Tensor((1, 4, 6, 6, 4), "float32"),
        y: R.Tensor((1, 4, 6, 6, 6), "float16"),
        v: R.Tensor((8, 4, 3, 3, 3), "float32"),
        w: R.Tensor((8, 4, 3, 3, 3), "float16"),
        u: R.Tensor((8, 4, "k", 3, 3), "float32"),
        z: R.Tensor((1, 4, 9, 6, 6), "float32"),
    ):
        with R.dataflow():
            a = R.nn.conv3d(x, v, data_layout="NDHWC")
            b = R.nn.conv3d(y, w)
            c = R.nn.conv3d(z, u)
            R.output(a, b, c)
        return (a, b, c)

    mod = IRModule.from_expr(main)
    assert ConvByPlanes()(mod) is mod


@pytest.mark.parametrize("far", [2**20, 2**31, 2**40])
def test_a_window_that_looks_far_stays_and_is_right(far: int) -> None:
    """Only its middle sees anything; as planes the padding would be stored."""
    data = Var("x", tensor_info((1, 2, 4, 5, 5), "float32"))
    w = Var("w", tensor_info((3, 2, 3, 1, 1), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [data, w]):
        with bb.dataflow():
            how = {"padding": (far, 0, 0, far, 0, 0), "dilation": (far, 1, 1)}
            out = bb.emit_output(op.nn.conv3d(data, w, **how))
        bb.emit_func_output(out)
    mod = bb.get()
    assert ConvByPlanes()(mod) is mod
    x = np.arange(200, dtype=np.float32).reshape(1, 2, 4, 5, 5)
    weight = np.arange(18, dtype=np.float32).reshape(3, 2, 3, 1, 1)
    wanted = np.einsum("ncdhw,oc->nodhw", x, weight[:, :, 1, 0, 0])
    np.testing.assert_allclose(mlc.compile(mod)(x, weight), wanted)


@st.composite
def convolutions(draw: Any) -> tuple[IRModule, list[np.ndarray]]:
    """A 3-D convolution of any window, groups, padding; the depth maybe open."""
    groups = draw(st.sampled_from([1, 2, 4]))
    inner, outer = draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    number = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(3))
    kernel, strides, dilation = number(1, 3), number(1, 2), number(1, 2)
    padding = number(0, 2) + number(0, 2)
    sizes = [
        (k - 1) * d + 1 + draw(st.integers(0, 3)) for k, d in zip(kernel, dilation, strict=True)
    ]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((draw(st.integers(1, 2)), groups * inner, *sizes)).astype("float32")
    w = rng.standard_normal((outer, inner, *kernel)).astype("float32")
    depth = draw(st.sampled_from([SizeVar("d", "int64"), x.shape[2]]))
    shape = (*x.shape[:2], depth, *x.shape[3:])
    given_ = [Var("x", tensor_info(shape, "float32")), Var("w", tensor_info(w.shape, "float32"))]
    bb = BlockBuilder()
    with bb.function("main", given_):
        with bb.dataflow():
            how = {"strides": strides, "dilation": dilation, "padding": padding, "groups": groups}
            y = bb.emit(op.nn.conv3d(*given_, **how))
            out = bb.emit_output(op.nn.relu(y))
        bb.emit_func_output(out)
    return bb.get(), [x, w]


@given(made=convolutions())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_numbers_are_the_same(made: tuple[IRModule, list[np.ndarray]]) -> None:
    mod, arrays = made
    after = ConvByPlanes()(mod)
    assert after is not mod and "conv3d" not in after.script()
    assert_same_results(evaluate(mod, *arrays), evaluate(after, *arrays), 1e-4, 1e-4)


@given(
    kernel=st.tuples(*[st.integers(1, 3)] * 3),
    strides=st.tuples(*[st.integers(1, 3)] * 3),
    dilation=st.tuples(*[st.integers(1, 2)] * 3),
    padding=st.tuples(*[st.integers(0, 1)] * 6),
    more=st.tuples(*[st.integers(0, 4)] * 3),
    is_open=st.booleans(),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_max_pooling_by_planes(more: Any, is_open: bool, **how: Any) -> None:
    each = zip(how["kernel"], how["dilation"], more, strict=True)
    sizes = [(k - 1) * d + 1 + m for k, d, m in each]
    if any(p >= k for p, k in zip(how["padding"], how["kernel"] * 2, strict=True)):
        return
    x = np.random.default_rng(0).standard_normal((2, 3, *sizes)).astype("float32")
    x[0, 0, 0, 0, 0] = np.nan
    depth = SizeVar("d", "int64") if is_open else sizes[0]
    data = Var("x", tensor_info((2, 3, depth, *sizes[1:]), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [data]):
        with bb.dataflow():
            how = {"pool_size": how.pop("kernel"), **how}
            out = bb.emit_output(op.nn.max_pool3d(data, **how))
        bb.emit_func_output(out)
    mod = bb.get()
    after = ConvByPlanes()(mod)
    assert "max_pool3d" not in after.script()
    assert_same_results(evaluate(mod, x), evaluate(after, x), 0, 0)


@pytest.mark.parametrize("depth", ["d", 6])
def test_compiled_it_is_a_convolution_in_blocks(depth: Any) -> None:
    @R.function
    def main(
        x: R.Tensor((2, 16, depth, 9, 10), "float32"), w: R.Tensor((32, 16, 3, 3, 3), "float32")
    ):
        with R.dataflow():
            gv = R.nn.conv3d(x, w, padding=(1, 1, 1, 1, 1, 1))
            R.output(gv)
        return gv

    mod = IRModule.from_expr(main)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 16, 6, 9, 10)).astype("float32")
    w = rng.standard_normal((32, 16, 3, 3, 3)).astype("float32")
    ex = mlc.compile(mod)
    np.testing.assert_allclose(ex(x, w), evaluate(mod, x, w), rtol=1e-3, atol=1e-3)
    assert any("NCHW" in str(kernel.func) for kernel in ex.kernels.values())


def test_a_window_that_is_too_deep_for_a_run_is_an_error() -> None:
    @R.function
    def main(x: R.Tensor((1, 4, "d", 6, 6), "float32"), w: R.Tensor((8, 4, 3, 3, 3), "float32")):
        with R.dataflow():
            gv = R.nn.conv3d(x, w)
            R.output(gv)
        return gv

    ex = mlc.compile(IRModule.from_expr(main))
    w = np.zeros((8, 4, 3, 3, 3), "float32")
    assert ex(np.zeros((1, 4, 3, 6, 6), "float32"), w).shape == (1, 8, 1, 4, 4)
    with pytest.raises(ExecutionError):
        ex(np.zeros((1, 4, 1, 6, 6), "float32"), w)
