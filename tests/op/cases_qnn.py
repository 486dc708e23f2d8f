"""Cases of quantised tensors: extreme bytes, zero points, blocks that are not full."""

from __future__ import annotations

import numpy as np

from mlcnb.op.qnn import conv, elementwise, matmul
from mlcnb.relax.transform.pack_quantized import pack_depthwise, pack_kernel, pack_matrix
from tests.op.harness import Case

MODULES = ("mlcnb.op.qnn.conv", "mlcnb.op.qnn.elementwise", "mlcnb.op.qnn.matmul")
F32 = np.float32


def random_bytes(shape, kind="uint8", seed=0):
    """Bytes of the whole range; the first of them the extremes."""
    ends = np.iinfo(kind)
    made = np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape).astype(kind)
    made.reshape(-1)[:2] = ends.max, ends.min
    return made


def number(value, kind="uint8"):
    return np.array(value, kind)


def _elementwise():
    halves = np.array([[1, 3, -1, -3, 5, 2**31 - 1, -(2**31), 0]], "int32")
    for kind, zero in (("uint8", 0), ("uint8", 200), ("int8", -128), ("int8", 7)):
        for scale in (0.5, 0.25, 1e-9, 1e30):
            yield Case(elementwise.Requantize(), [halves, number(scale, F32), number(zero, kind)])
    sums = np.random.default_rng(1).integers(-5000, 5000, (2, 3, 2, 2)).astype("int32")
    each = np.array([0.01, 0.1, 0.003], F32).reshape(1, 3, 1, 1)
    yield Case(elementwise.Requantize(), [sums, each, number(3)])
    unfit = np.array([0.01, np.nan, np.inf], F32).reshape(1, 3, 1, 1)
    yield Case(elementwise.Requantize(), [sums, unfit, number(3)])
    for kind in ("uint8", "int8"):
        a, b = random_bytes((2, 3, 4), kind), random_bytes((3, 1), kind, 1)
        scales = [number(s, F32) for s in (0.7, 1.3, -11.25)]
        yield Case(elementwise.QuantizedAdd(), [a, b, *scales])
        yield Case(elementwise.QuantizedAdd(), [a, a, number(0.5, F32), *scales[1:]])
    yield Case(elementwise.Unsigned(), [random_bytes((3, 5), "int8")])


def _convolutions():
    for left, right in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")):
        x, w = random_bytes((2, 4, 5, 6), left), random_bytes((6, 4, 3, 3), right, 1)
        point = number(5, left)
        yield Case(conv.QuantizedConv2d(), [x, w, point])
        yield Case(conv.QuantizedConv2d((2, 1), (1, 0, 2, 1)), [x, w, point])
        yield Case(conv.QuantizedConv2d(1, 2, 2), [x, w, point])
        yield Case(conv.QuantizedConv2d(1, 1, 1, 2), [x, w[:, :2], point])
    full = np.full((1, 4, 3, 3), 255, "uint8")
    least = np.full((2, 4, 3, 3), -128, "int8")
    yield Case(conv.QuantizedConv2d(1, 1), [full, least, number(255)])


def _packed():
    for inner, outer in ((4, 8), (16, 16), (8, 4)):
        x = random_bytes((1, 2, 5, 6, inner))
        kernel = random_bytes((outer * 2 - 3, inner * 2, 3, 2), "int8", 1)
        w = pack_kernel(kernel, outer, inner)
        yield Case(conv.QuantizedConv2dPacked(), [x, w, number(9)])
        yield Case(conv.QuantizedConv2dPacked((2, 1), (1, 0, 2, 1)), [x, w, number(9)])
        groups = random_bytes((1, 4, 5, 6, inner))
        yield Case(conv.QuantizedConv2dPacked((2, 1), (1, 0, 2, 1)), [groups, w, number(9)])
    for width in (1, 3, 4, 5):
        x, kernel = random_bytes((2, 2, 6, 7, 8)), random_bytes((13, 1, 3, width), "int8", 1)
        w, one = pack_depthwise(kernel, 8), conv.QuantizedDepthwiseConv2dPacked
        yield Case(one(width), [x, w, number(200)])
        yield Case(one(width, (2, 3), (1, 2, 0, 1)), [x, w, number(200)])


def _products():
    for left, right in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")):
        x, w = random_bytes((2, 3, 8), left), random_bytes((8, 5), right, 1)
        yield Case(matmul.QuantizedMatmul(), [x, w])
        yield Case(matmul.QuantizedMatmul(), [x[0], w])
        yield Case(matmul.QuantizedMatmulPacked(columns=5), [x, pack_matrix(w, 4), None])
        yield Case(matmul.QuantizedMatmulPacked(), [x, pack_matrix(w, 8), (5,)])
        each = random_bytes((2, 8, 5), right, 2)
        yield Case(matmul.QuantizedMatmul(), [x, each])
        packed = np.stack([pack_matrix(w, 4) for w in each])
        yield Case(matmul.QuantizedMatmulPacked(columns=5), [x, packed, None])
    yield Case(matmul.QuantizedMatmul(), [random_bytes((3, 7)), random_bytes((7, 2), "int8")])


CASES = [*_elementwise(), *_convolutions(), *_packed(), *_products()]
