"""Cases of quantisation, sets and sampling."""

from __future__ import annotations

import numpy as np

from mlcnb.op import quantize
from mlcnb.op import set as sets
from mlcnb.op.random import generators
from tests.op.harness import Case, numbers, special

MODULES = ("mlcnb.op.quantize", "mlcnb.op.set")
MODULES += ("mlcnb.op.random.generators",)
SCALE = np.array(0.25, "float32")


def _quantised():
    halves = np.array([0.125, 0.375, -0.125, -0.375, 0.625, 40, -40, 31.75], "float32")
    for kind in ("int8", "uint8", "int16", "uint16"):
        zero = np.array(3).astype(kind)
        yield Case(quantize.Quantize(0, kind), [halves, SCALE, zero])
        yield Case(quantize.Quantize(0, kind), [special(), SCALE, zero])
        whole = quantize.Quantize(0, kind).numpy(halves, SCALE, zero)
        yield Case(quantize.Dequantize(0), [whole, SCALE, zero])
        yield Case(quantize.Dequantize(0, "float16"), [whole, SCALE.astype("float16"), zero])
    x = numbers((2, 3, 4), low=-40, high=40)
    for axis in (0, 1, -1):
        count = x.shape[axis]
        scale, zero = numbers((count,), low=0.1), numbers((count,), "int8", 1)
        scale = np.abs(scale) + np.float32(0.125)
        yield Case(quantize.Quantize(axis), [x, scale, zero])
        yield Case(quantize.Dequantize(axis), [numbers((2, 3, 4), "int8"), scale, zero])
    each = np.abs(numbers((2, 3, 4), seed=3)) + np.float32(0.125)
    yield Case(quantize.Quantize(1), [x, each, numbers((2, 3, 4), "int8")])
    yield Case(quantize.Quantize(0), [x, np.array([0.5], "float32"), np.array([1], "int8")])
    yield Case(quantize.Quantize(0, "float8_e4m3fn"), [halves, SCALE, np.array(0, "int8")])
    half = SCALE.astype("float16")
    yield Case(quantize.Quantize(0), [x.astype("float16"), half, np.array(0, "int8")])
    yield Case(quantize.Dequantize(0), [np.array([-(2**20), 5], "int32"), SCALE, np.int32([0])])


def _sets():
    x = np.array([[2, 1, 1], [3, 4, 3]])
    for order in (True, False):
        yield Case(sets.Unique(order), [x], loops=False)
        yield Case(sets.Unique(order, True, True, True), [x.astype("float32")], loops=False)
        rows = np.array([[1, 0], [1, 0], [0, 3]])
        yield Case(sets.Unique(order, False, True, True, 0), [rows], loops=False)
        yield Case(sets.Unique(order, True, False, False, 1), [x], loops=False)
    for array in (
        x - 1,
        x.astype("float32") - 1,
        np.array([True, False]),
        np.array(5),
        np.array(0),
    ):
        yield Case(sets.Nonzero(), [array], loops=False)
    yield Case(sets.Nonzero(), [np.zeros((2, 0))], loops=False)


def _samples():
    prob = np.array([[0.25, 0.5, 0.25], [0, 0, 1]], "float32")
    drawn = np.array([[0.1], [0.25], [0.7], [0.8], [0.5], [1.0]], "float32")
    rows = np.array([[0], [0], [0], [0], [1], [0]])
    yield Case(generators.MultinomialFromUniform(), [prob, drawn, rows])
    yield Case(generators.MultinomialFromUniform("int32"), [prob, drawn[:1], rows[4:5]])
    for seed in (0, 7, 2**40 + 3):
        yield Case(generators.Uniform(-2.0, 5.0, seed), [(3, 4)], 1e-5)
        yield Case(generators.Normal(1.0, 2.0, seed, "float64"), [(3, 5)], 1e-4)
    yield Case(generators.Uniform(dtype="float16"), [()])
    yield Case(generators.Normal(dtype="bfloat16"), [(0, 2)])


CASES = [*_quantised(), *_sets(), *_samples()]
