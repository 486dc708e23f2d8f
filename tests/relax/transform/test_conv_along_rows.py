"""ConvAlongRows: 1-D convolutions, and 2-D ones of one column, as 2-D convolutions of one row."""

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
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.operator import called
from mlcnb.relax.transform import ConvAlongRows, DeadCodeElimination
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.harness import check_pass

BIAS = np.arange(8, dtype="float32").reshape(1, 8, 1)


def test_what_follows_stays_between_the_convolutions() -> None:
    @R.function
    def before(x: R.Tensor((1, 4, "n"), "float32"), w: R.Tensor((8, 4, 3), "float32"),
               v: R.Tensor((8, 2, 3), "float32")):  # fmt: skip
        with R.dataflow():
            y = R.nn.conv1d(x, w, padding=(2, 0), strides=2)
            a = R.add(y, R.const(BIAS))
            r = R.nn.relu(a)
            gv = R.nn.conv1d(r, v, groups=4, padding=4, dilation=3)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 4, "n"), "float32"), w: R.Tensor((8, 4, 3), "float32"),
              v: R.Tensor((8, 2, 3), "float32")):  # fmt: skip
        with R.dataflow():
            x1 = R.expand_dims(x, axis=[2])
            w1 = R.expand_dims(w, axis=[2])
            y = R.nn.conv2d(x1, w1, strides=(1, 2), padding=(0, 2, 0, 0))
            a = R.add(y, R.const(BIAS[..., None]))
            r = R.nn.relu(a)
            v1 = R.expand_dims(v, axis=[2])
            z = R.nn.conv2d(r, v1, groups=4, padding=(0, 4, 0, 4), dilation=(1, 3))
            z1 = R.squeeze(z, axis=[2])
            gv = z1
            R.output(gv)
        return gv

    check_pass(Sequential([ConvAlongRows(), DeadCodeElimination()]), before, after)


def test_one_column_becomes_one_row() -> None:
    @R.function
    def before(x: R.Tensor(("n", 4, 9, 1), "float32"), w: R.Tensor((8, 4, 5, 1), "float32")):
        with R.dataflow():
            gv = R.nn.conv2d(x, w, strides=(2, 7), padding=(1, 0, 3, 0), dilation=(2, 1))
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor(("n", 4, 9, 1), "float32"), w: R.Tensor((8, 4, 5, 1), "float32")):
        n = T.int64()
        with R.dataflow():
            x1 = R.reshape(x, (n, 4, 1, 9))
            w1 = R.reshape(w, (8, 4, 1, 5))
            y = R.nn.conv2d(x1, w1, strides=(7, 2), padding=(0, 1, 0, 3), dilation=(1, 2))
            y1 = R.reshape(y, (n, 8, 3, 1))
            gv = y1
            R.output(gv)
        return gv

    check_pass(ConvAlongRows(), before, after)


def test_others_stay() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 4, 9, 1), "float32"), w: R.Tensor((8, 4, 3, 3), "float32"),
                 r: R.Tensor((1, 9, 4), "float32"), s: R.Tensor((2, 4, 3), "float32"),
                 u: R.Tensor(ndim=3, dtype="float32")):  # fmt: skip
            with R.dataflow():
                padded = R.nn.conv2d(x, w, padding=(0, 1, 0, 1))
                last = R.nn.conv1d(r, s, data_layout="NWC", kernel_layout="OIW")
                unknown = R.nn.conv1d(u, s)
                R.output(padded, last, unknown)
            return (padded, last, unknown)

    assert ConvAlongRows()(Mod) is Mod


def test_rows_of_a_block_or_a_branch_are_not_seen_outside_of_it() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 4, 9), "float32"), w: R.Tensor((4, 4, 1), "float32"),
                 c: R.Tensor((), "bool")):  # fmt: skip
            with R.dataflow():
                a = R.nn.conv1d(x, w)
                R.output(a)
            if c:
                b = R.nn.conv1d(a, w)
                y = R.nn.relu(b)
            else:
                d = R.nn.conv1d(a, w)
                y = R.tanh(d)
            with R.dataflow():
                z = R.nn.conv1d(y, w)
                R.output(z)
            return z

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 4, 9)), rng.normal(size=(4, 4, 1))
    args = [x.astype("float32"), w.astype("float32")]
    after = ConvAlongRows()(Mod)
    for choice in (True, False):
        given_ = (*args, np.array(choice))
        assert_same_results(evaluate(Mod, *given_), evaluate(after, *given_), 1e-6, 1e-6)
    assert mlc.relax.analysis.well_formed(after)


@st.composite
def nets(draw: Any) -> tuple[IRModule, list[np.ndarray]]:
    """One or two convolutions of one dimension with what comes between them."""
    column = draw(st.booleans())
    kind = draw(st.sampled_from(["float32", "float64", "int32"]))
    groups = draw(st.sampled_from([1, 2, 4]))
    length, size = draw(st.integers(5, 20)), draw(st.integers(1, 3))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pads = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    tail = (1,) if column else ()
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    arrays = [
        rng.integers(-4, 5, (draw(st.integers(1, 2)), 4, length, *tail)).astype(kind),
        rng.integers(-4, 5, (8, 4 // groups, size, *tail)).astype(kind),
    ]
    params = [Var(n, tensor_info(a.shape, kind)) for n, a in zip(("x", "w"), arrays, strict=True)]
    options: dict[str, Any] = {"groups": groups}
    if column:
        options |= {"strides": (stride, 1), "dilation": (dilation, 1)}
        options |= {"padding": (pads[0], 0, pads[1], 0)}
    else:
        options |= {"strides": stride, "dilation": dilation, "padding": pads}
    bb = BlockBuilder()
    conv = op.nn.conv2d if column else op.nn.conv1d
    with bb.function("main", params):
        with bb.dataflow():
            y = bb.emit(conv(*params, **options))
            beside = draw(st.sampled_from(["channels", "number", "itself", "places", "none"]))
            if beside == "channels":
                y = bb.emit(op.add(y, const(rng.integers(0, 9, (8, 1, *tail)).astype(kind))))
            elif beside == "number":
                y = bb.emit(op.multiply(const(np.array(3, kind)), y))
            elif beside == "itself":
                y = bb.emit(op.subtract(y, bb.emit(op.nn.relu(y))))
            elif beside == "places":
                places = [int(d) for d in y.struct_info.dims][2:]
                y = bb.emit(op.add(y, const(rng.integers(0, 9, places).astype(kind))))
            if draw(st.booleans()):
                v = rng.integers(-2, 3, (2, 8, 1, *tail)).astype(kind)
                y = bb.emit(conv(y, const(v)))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get(), arrays


@given(made=nets())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_numbers_are_the_same(made: tuple[IRModule, list[np.ndarray]]) -> None:
    mod, arrays = made
    after = ConvAlongRows()(mod)
    assert after is not mod
    wanted, found = evaluate(mod, *arrays), evaluate(after, *arrays)
    assert_same_results(wanted, found, 1e-6, 1e-6)


def test_a_window_that_is_too_large_for_a_run_is_named() -> None:
    @R.function
    def main(x: R.Tensor((1, 4, "n"), "float32"), w: R.Tensor((8, 4, 3), "float32")):
        y = R.nn.conv1d(x, w, dilation=2)
        return y

    mod = IRModule.from_expr(main)
    given_ = np.zeros((1, 4, 3), "float32"), np.zeros((8, 4, 3), "float32")
    for each in (mod, ConvAlongRows()(mod)):
        with pytest.raises(ExecutionError, match="window"):
            evaluate(each, *given_)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_a_compiled_net_of_open_length_takes_the_blocked_layout(kind: str) -> None:
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(32, 16, 3)) * 0.2).astype(kind)

    @R.function
    def main(x: R.Tensor((1, 16, "n"), kind)):
        with R.dataflow():
            y = R.nn.conv1d(x, R.const(w), padding=1)
            gv = R.nn.relu(y)
            R.output(gv)
        return gv

    ex = mlc.compile(IRModule.from_expr(main))
    for n in (1, 7, 33):
        x = rng.normal(size=(1, 16, n)).astype(kind)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1))).astype("float64")
        windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=[2])
        wanted = np.maximum(np.einsum("bcnk,ock->bon", windows, w.astype("float64")), 0)
        tolerance = 1e-4 if kind == "float32" else 2e-2
        np.testing.assert_allclose(ex(x), wanted, rtol=tolerance, atol=tolerance)
    names = [called(b.value).op_name for b in bindings_of(ex.mod["main"])]
    assert "relax.nn.conv1d" not in names
    assert "NCHWc" in ex.mod.script()
