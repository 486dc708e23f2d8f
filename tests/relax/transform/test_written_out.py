"""Formulas that exporters write out become operators, whole programs before and after."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlcnb.relax.transform import FuseAttention, FuseGelu, FuseLayerNorm
from mlcnb.script import relax as R
from tests.relax.harness import check_pass

ROOT = np.float32(math.sqrt(2))
WIDTH = np.arange(1.0, 5.0, dtype="float32")


def test_gelu_in_two_orders_and_its_approximation() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.add(R.erf(R.divide(x, R.const(ROOT))), R.const(1.0))
            first = R.multiply(R.multiply(x, a), R.const(0.5))
            b = R.add(R.const(1.0), R.erf(R.multiply(y, R.const(0.70710678))))
            second = R.multiply(R.multiply(y, R.const(0.5)), b)
            cube = R.multiply(R.multiply(y, R.multiply(y, y)), R.const(0.044715))
            inside = R.multiply(R.const(0.7978845608), R.add(y, cube))
            c = R.add(R.tanh(inside), R.const(1.0))
            third = R.multiply(y, R.multiply(R.const(0.5), c))
            gv = (first, second, third)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            first = R.nn.gelu(x)
            second = R.nn.gelu(y)
            third = R.nn.gelu_tanh(y)
            gv = (first, second, third)
            R.output(gv)
        return gv

    check_pass(FuseGelu(), before, after)


def test_what_is_nearly_gelu_stays() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.add(R.erf(R.divide(x, R.const(1.5))), R.const(1.0))
            b = R.add(R.erf(R.divide(y, R.const(ROOT))), R.const(1.0))
            one = R.multiply(R.multiply(x, a), R.const(0.5))
            two = R.multiply(R.multiply(x, b), R.const(0.5))
            three = R.multiply(R.multiply(y, b), R.const(0.25))
            gv = (one, two, three)
            R.output(gv)
        return gv

    check_pass(FuseGelu(), before, before)


def test_a_normalisation_takes_in_its_weights() -> None:
    @R.function
    def before(x: R.Tensor((2, 3, 4), "float32"), g: R.Tensor((4,), "float32")):
        with R.dataflow():
            c = R.subtract(x, R.mean(x, axis=[-1], keepdims=True))
            v = R.mean(R.multiply(c, c), axis=[-1], keepdims=True)
            n = R.divide(c, R.sqrt(R.add(v, R.const(2.0**-10))))
            gv = R.add(R.multiply(n, g), R.const(WIDTH))
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 3, 4), "float32"), g: R.Tensor((4,), "float32")):
        with R.dataflow():
            gv = R.nn.layer_norm(x, g, R.const(WIDTH), axes=[-1], epsilon=2.0**-10)
            R.output(gv)
        return gv

    check_pass(FuseLayerNorm(), before, after, tolerance=1e-4)


def test_without_a_mean_it_is_rms_norm() -> None:
    @R.function
    def before(x: R.Tensor((2, 3, 4), "float32"), g: R.Tensor((4,), "float32")):
        with R.dataflow():
            v = R.mean(R.power(x, R.const(2.0)), axis=[2], keepdims=True)
            n = R.multiply(x, R.rsqrt(R.add(v, R.const(2.0**-10))))
            gv = R.multiply(g, n)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 3, 4), "float32"), g: R.Tensor((4,), "float32")):
        with R.dataflow():
            gv = R.nn.rms_norm(x, g, axes=[-1], epsilon=2.0**-10)
            R.output(gv)
        return gv

    check_pass(FuseLayerNorm(), before, after, tolerance=1e-4)


def test_another_axis_and_another_mean_stay() -> None:
    @R.function
    def before(x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor((2, 3, 4), "float32")):
        with R.dataflow():
            c = R.subtract(x, R.mean(x, axis=[1], keepdims=True))
            v = R.mean(R.multiply(c, c), axis=[1], keepdims=True)
            n = R.divide(c, R.sqrt(R.add(v, R.const(2.0**-10))))
            d = R.subtract(x, R.mean(y, axis=[-1], keepdims=True))
            w = R.mean(R.multiply(d, y), axis=[-1], keepdims=True)
            m = R.divide(d, R.sqrt(R.add(R.multiply(w, w), R.const(2.0**-10))))
            gv = (n, m)
            R.output(gv)
        return gv

    check_pass(FuseLayerNorm(), before, before)


def test_heads_are_read_where_they_were_computed() -> None:
    @R.function
    def before(q: R.Tensor((1, 5, 2, 4), "float32"), k: R.Tensor((1, 6, 2, 4), "float32"),
               v: R.Tensor((1, 6, 2, 3), "float32"),
               m: R.Tensor((1, 1, 1, 6), "float32")):  # fmt: skip
        with R.dataflow():
            q1 = R.permute_dims(q, axes=[0, 2, 1, 3])
            k1 = R.permute_dims(k, axes=[0, 2, 3, 1])
            v1 = R.permute_dims(v, axes=[0, 2, 1, 3])
            s = R.add(R.divide(R.matmul(q1, k1), R.const(2.0)), m)
            o = R.matmul(R.nn.softmax(s, axis=-1), v1)
            gv = R.permute_dims(o, axes=[0, 2, 1, 3])
            R.output(gv)
        return gv

    @R.function
    def after(q: R.Tensor((1, 5, 2, 4), "float32"), k: R.Tensor((1, 6, 2, 4), "float32"),
              v: R.Tensor((1, 6, 2, 3), "float32"),
              m: R.Tensor((1, 1, 1, 6), "float32")):  # fmt: skip
        with R.dataflow():
            a = R.nn.attention(q, k, v, m, scale=0.5)
            o = R.permute_dims(a, axes=[0, 2, 1, 3])
            gv = R.permute_dims(o, axes=[0, 2, 1, 3])
            R.output(gv)
        return gv

    check_pass(FuseAttention(), before, after, tolerance=1e-4)


def test_heads_that_lie_apart_are_samples() -> None:
    @R.function
    def before(q: R.Tensor((2, 3, 5, 4), "float32"), k: R.Tensor((2, 3, 6, 4), "float32"),
               v: R.Tensor((2, 3, 6, 7), "float32")):  # fmt: skip
        with R.dataflow():
            k1 = R.permute_dims(k, axes=[0, 1, 3, 2])
            s = R.multiply(R.matmul(q, k1), R.const(0.5))
            gv = R.matmul(R.nn.softmax(s, axis=-1), v)
            R.output(gv)
        return gv

    @R.function
    def after(q: R.Tensor((2, 3, 5, 4), "float32"), k: R.Tensor((2, 3, 6, 4), "float32"),
              v: R.Tensor((2, 3, 6, 7), "float32")):  # fmt: skip
        with R.dataflow():
            q1 = R.reshape(q, (6, 5, 1, 4))
            k1 = R.reshape(k, (6, 6, 1, 4))
            v1 = R.reshape(v, (6, 6, 1, 7))
            a = R.nn.attention(q1, k1, v1, scale=0.5)
            gv = R.reshape(a, (2, 3, 5, 7))
            R.output(gv)
        return gv

    check_pass(FuseAttention(), before, after, tolerance=1e-4)


@pytest.mark.parametrize("used", ["scores", "weights"])
def test_scores_that_others_use_stay(used) -> None:
    @R.function
    def before(q: R.Tensor((1, 2, 5, 4), "float32"), k: R.Tensor((1, 2, 4, 6), "float32"),
               v: R.Tensor((1, 2, 6, 3), "float32")):  # fmt: skip
        with R.dataflow():
            s = R.matmul(q, k)
            w = R.nn.softmax(s, axis=-1)
            o = R.matmul(w, v)
            gv = (o, s if used == "scores" else w)
            R.output(gv)
        return gv

    check_pass(FuseAttention(), before, before)
