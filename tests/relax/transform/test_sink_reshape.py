"""SinkReshape: elementwise operators reach the product before its reshape."""

from __future__ import annotations

import numpy as np

from mlcnb.relax.transform import SinkReshape
from mlcnb.script import relax as R
from tests.relax.harness import check_pass

BIAS = np.array([1.0, -2.0, 0.5, 3.0], "float32").reshape(4, 1, 1)
IN_PRODUCT = BIAS.reshape(1, 2, 2, 1)


def test_a_bias_an_activation_and_a_residual_come_first() -> None:
    @R.function
    def before(w: R.Tensor((2, 2, 3), "float32"), x: R.Tensor((1, 2, 3, 6), "float32"),
               r: R.Tensor((1, 4, 2, 3), "float32")):  # fmt: skip
        with R.dataflow():
            m = R.matmul(w, x)
            y = R.reshape(m, (1, 4, 2, 3))
            a = R.add(y, R.const(BIAS))
            b = R.subtract(r, a)
            gv = R.nn.relu(b)
            R.output(gv)
        return gv

    @R.function
    def after(w: R.Tensor((2, 2, 3), "float32"), x: R.Tensor((1, 2, 3, 6), "float32"),
              r: R.Tensor((1, 4, 2, 3), "float32")):  # fmt: skip
        with R.dataflow():
            m = R.matmul(w, x)
            y = R.reshape(m, (1, 4, 2, 3))
            s = R.add(m, R.const(IN_PRODUCT))
            a = R.reshape(s, (1, 4, 2, 3))
            r1 = R.reshape(r, (1, 2, 2, 6))
            d = R.subtract(r1, s)
            b = R.reshape(d, (1, 4, 2, 3))
            t = R.nn.relu(d)
            gv = R.reshape(t, (1, 4, 2, 3))
            R.output(gv)
        return gv

    check_pass(SinkReshape(), before, after)


def test_an_operand_of_axes_that_the_reshape_keeps_stays_as_it_is() -> None:
    @R.function
    def before(w: R.Tensor((6, 3), "float32"), x: R.Tensor((3, 4), "float32"),
               bias: R.Tensor((4,), "float32"), more: R.Tensor((3, 1), "float32")):  # fmt: skip
        with R.dataflow():
            m = R.matmul(w, x)
            y = R.reshape(m, (2, 3, 4))
            a = R.add(y, bias)
            gv = R.multiply(a, more)  # its first axis is one that the reshape made
            R.output(gv)
        return gv

    @R.function
    def after(w: R.Tensor((6, 3), "float32"), x: R.Tensor((3, 4), "float32"),
              bias: R.Tensor((4,), "float32"), more: R.Tensor((3, 1), "float32")):  # fmt: skip
        with R.dataflow():
            m = R.matmul(w, x)
            y = R.reshape(m, (2, 3, 4))
            s = R.add(m, bias)
            a = R.reshape(s, (2, 3, 4))
            gv = R.multiply(a, more)
            R.output(gv)
        return gv

    check_pass(SinkReshape(), before, after)


def test_what_others_use_or_no_product_made_stays() -> None:
    @R.function
    def before(w: R.Tensor((6, 6), "float32"), x: R.Tensor((2, 18), "float32")):
        with R.dataflow():
            m = R.matmul(w, w)
            y = R.reshape(m, (2, 18))
            a = R.nn.relu(y)
            b = R.add(a, y)
            z = R.reshape(x, (6, 6))
            c = R.nn.relu(z)
            gv = (b, c)
            R.output(gv)
        return gv

    check_pass(SinkReshape(), before, before)


def test_a_broadcast_that_makes_the_result_larger_stays() -> None:
    @R.function
    def before(w: R.Tensor((6, 6), "float32"), x: R.Tensor((3, 2, 18), "float32")):
        with R.dataflow():
            y = R.reshape(R.matmul(w, w), (2, 18))
            gv = R.add(y, x)
            R.output(gv)
        return gv

    check_pass(SinkReshape(), before, before)
