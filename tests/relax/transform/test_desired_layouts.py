"""ConvertLayout in the layouts that a user asks for."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis import well_formed
from mlcnb.relax.transform import ConvertLayout
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.harness import as_module, check_pass

NHWC = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})


def test_a_convolution_and_what_follows_element_by_element() -> None:
    @R.function
    def before(
        x: R.Tensor((2, 3, 6, 7), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((1, 4, 1, 1), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            z = R.add(y, b)
            gv = R.nn.relu(z)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor((2, 3, 6, 7), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((1, 4, 1, 1), "float32"),
    ):
        with R.dataflow():
            x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
            w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
            y = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
            b1 = R.permute_dims(b, axes=[0, 2, 3, 1])
            z = R.add(y, b1)
            r = R.nn.relu(z)
            gv = R.permute_dims(r, axes=[0, 3, 1, 2])
            R.output(gv)
        return gv

    check_pass(NHWC, before, after, tolerance=1e-4)


def test_what_is_as_desired_stays() -> None:
    @R.function
    def plain(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            gv = R.nn.softmax(x, axis=1)
            R.output(gv)
        return gv

    mod = as_module(plain)
    assert NHWC(mod) is mod


def test_a_layout_reaches_through_axes_layouts_and_tuples() -> None:
    @R.function
    def before(
        x: R.Tensor((2, 3, 8, 8), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        v: R.Tensor((4, 4, 1, 1), "float32"),
        g: R.Tensor((4,), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            p = R.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
            s = R.nn.softmax(p, axis=1)
            t = R.concat((p, s), axis=1)
            u = R.split(t, 2, axis=1)
            q = R.add(u[0], u[1])
            n = R.nn.batch_norm(q, g, g, g, R.abs(g), axis=1, training=False)
            m = R.nn.conv2d(n[0], v)
            f = R.mean(m, axis=[2, 3])
            k = R.sum(m, axis=[1], keepdims=True)
            h = R.permute_dims(m, axes=[0, 2, 3, 1])
            gv = (f, k, h, R.reshape(q, (2, 36)))
            R.output(gv)
        return gv

    got = check_pass(NHWC, before, tolerance=1e-4, again=False)
    text = got.script()
    assert text.count('data_layout="NHWC"') == 2
    assert 'layout="NHWC"' in text.split("max_pool2d")[1].split(")")[1] or "NHWC" in text
    # x, w, v into the new layout; q, k and their like back: nothing between the two convolutions
    assert text.count("axes=[0, 2, 3, 1]") == 3
    assert "R.nn.softmax" in text and "axis=3" in text


def test_operands_of_lower_rank_and_of_none() -> None:
    @R.function
    def before(
        x: R.Tensor((1, 3, 5, 5), "float32"),
        w: R.Tensor((3, 3, 1, 1), "float32"),
        b: R.Tensor((3, 1, 1), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            z = R.add(b, y)
            u = R.multiply(z, R.const(2.0, "float32"))
            gv = R.where(R.less(u, R.const(0.5)), u, z)
            R.output(gv)
        return gv

    check_pass(NHWC, before, tolerance=1e-4, again=False)


def test_convolutions_are_chosen_by_a_function() -> None:
    @R.function
    def before(
        x: R.Tensor((1, 3, 5, 5), "float32"),
        w: R.Tensor((3, 3, 3, 3), "float32"),
        v: R.Tensor((3, 3, 1, 1), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            gv = R.nn.conv2d(y, v)
            R.output(gv)
        return gv

    def large_only(call):
        kernel = [int(d) for d in call.args[1].struct_info.dims[2:]]
        return {"relax.nn.conv2d": ["NHWC", "OHWI", "NHWC"]} if kernel == [3, 3] else {}

    got = check_pass(ConvertLayout(layout_cb=large_only), before, tolerance=1e-4, again=False)
    assert got.script().count('data_layout="NHWC"') == 1


def test_no_order_of_the_dimensions() -> None:
    @R.function
    def before(x: R.Tensor((1, 3, 5, 5), "float32"), w: R.Tensor((3, 3, 1, 1), "float32")):
        with R.dataflow():
            gv = R.nn.conv2d(x, w)
            R.output(gv)
        return gv

    with pytest.raises(
        PassError, match="nn.conv2d lies in NCHW, and NCHW16c is no order of its dimensions"
    ):
        ConvertLayout({"relax.nn.conv2d": ["NCHW16c", "OIHW"]})(as_module(before))


def test_a_module_with_calls_of_loops_is_converted_around_them() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def halved(a: T.Buffer((1, 2, 4, 4), "float32"), b: T.Buffer((1, 2, 4, 4), "float32")):
            T.evaluate(0)

        @R.function
        def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((2, 3, 3, 3), "float32")):
            cls = Before
            with R.dataflow():
                a = R.nn.conv2d(x, w)
                gv = R.call_tir(cls.halved, (a,), out_sinfo=R.Tensor((1, 2, 4, 4), "float32"))
                R.output(gv)
            return gv

    after = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)
    names = [b.value.op.name for b in after["main"].body.bindings]
    turned = "relax.permute_dims"
    assert names == [turned, turned, "relax.nn.conv2d", turned, "relax.call_tir"]


@pytest.mark.parametrize(
    "converted",
    [ConvertLayout(block=4), ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})],
    ids=["blocks", "NHWC"],
)
def test_another_name_for_what_was_converted(converted: ConvertLayout) -> None:
    @R.function
    def main(x: R.Tensor((1, 4, 5, 6), "float32"), w: R.Tensor((8, 4, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w)
            b = a
            c = R.nn.relu(b)
            gv = c
            R.output(gv, b)
        return (gv, b)

    mod = IRModule.from_expr(main)
    after = converted(mod)
    assert after is not mod and well_formed(after)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 4, 5, 6), (8, 4, 3, 3)))
    assert_same_results(evaluate(mod, x, w), evaluate(after, x, w), 1e-5, 1e-5)
