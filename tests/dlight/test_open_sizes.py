"""Rules on open sizes: the kernels of a graph compiled once equal NumPy and ONNX Runtime at any."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.node import walk
from mlcnb.ir.prim_ops import as_int
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.tir.stmt import Allocate


def model(nodes, inputs, outputs, constants):
    """A model of float32 from (operator, inputs, output, attributes), with the shapes given."""
    made = [helper.make_node(kind, given, [out], **attrs) for kind, given, out, attrs in nodes]
    sides = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()]
        for side in (inputs, outputs)
    ]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(made, "open", *sides, held)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def drawn(*shape: int) -> np.ndarray:
    made = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (made / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


@pytest.fixture(scope="module")
def convolutions():
    """Strides, padding, a residual, one pixel, a window for each channel; and ONNX Runtime's."""
    same = {"pads": [1] * 4}
    nodes = [
        ("Conv", ["x", "first"], "a", {"strides": [2, 2], **same}),
        ("Relu", ["a"], "b", {}),
        ("Conv", ["b", "dense"], "c", same),
        ("Add", ["b", "c"], "d", {}),
        ("Conv", ["d", "depth"], "e", {"group": 32, **same}),
        ("Conv", ["e", "point"], "y", {}),
    ]
    weights = {
        "first": drawn(32, 3, 3, 3),
        "dense": drawn(32, 32, 3, 3),
        "depth": drawn(32, 1, 3, 3),
        "point": drawn(64, 32, 1, 1),
    }
    given = model(nodes, {"x": ["n", 3, "h", "w"]}, {"y": ["n", 64, "p", "q"]}, weights)
    return mlc.compile(mlc.from_onnx(given)), onnxruntime_session(given, 1)


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 3, 5, 7), (1, 3, 12, 24), (1, 3, 9, 67)])
def test_convolutions(convolutions, shape: tuple[int, ...]):
    ex, session = convolutions
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(ex(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window, pads", [(3, [0] * 4), (2, [1] * 4), (3, [2] * 4), (3, [1] * 4)])
def test_sums_stay_in_registers_whatever_the_result_is_wide(window: int, pads: list[int]):
    """Where it is wider or narrower than the input by some elements too: `h - 2`, `h + 1`."""
    nodes = [("Conv", ["x", "w"], "c", {"pads": pads}), ("Relu", ["c"], "y", {})]
    weights = {"w": drawn(64, 32, window, window)}
    given = model(nodes, {"x": [1, 32, "h", "w"]}, {"y": [1, 64, "p", "q"]}, weights)
    ex = mlc.compile(mlc.from_onnx(given))
    (kernel,) = (k for name, k in ex.kernels.items() if "conv2d" in name)
    made = [n for n in walk(kernel.lowered.body) if isinstance(n, Allocate)]
    sums = [n for n in made if str(n.buffer_var.pointee[1]) == "local"]
    assert sums
    assert all(as_int(extent) is not None for n in sums for extent in n.extents)
    x = np.random.default_rng(0).standard_normal((1, 32, 9, 23)).astype(np.float32)
    wanted = onnxruntime_session(given, 1).run(None, {"x": x})[0]
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def products():
    """Rows of an open number and rank times a matrix, a bias and a maximum behind it."""
    nodes = [
        ("MatMul", ["x", "w"], "a", {}),
        ("Add", ["a", "v"], "b", {}),
        ("Relu", ["b"], "y", {}),
    ]
    weights = {"w": drawn(40, 96), "v": drawn(96)}
    given = model(nodes, {"x": ["b", "s", 40]}, {"y": ["b", "s", 96]}, weights)
    return mlc.compile(mlc.from_onnx(given)), weights


@pytest.mark.parametrize("shape", [(1, 1, 40), (3, 2, 40), (1, 13, 40), (2, 64, 40)])
def test_products(products, shape: tuple[int, ...]):
    ex, weights = products
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = np.maximum(x @ weights["w"] + weights["v"], 0)
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def matrices():
    """Rows, columns and depth of a product are open, and so is the batch; exp of each result."""
    nodes = [("MatMul", ["x", "y"], "a", {}), ("Exp", ["a"], "z", {})]
    given = {"x": ["b", "n", "k"], "y": ["b", "k", "m"]}
    return mlc.compile(mlc.from_onnx(model(nodes, given, {"z": ["b", "n", "m"]}, {})))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (6, 4, 16), (13, 9, 40), (33, 20, 17)])
def test_matrices(matrices, sizes: tuple[int, int, int]):
    n, k, m = sizes
    x, y = drawn(2, n, k), drawn(2, k, m)
    np.testing.assert_allclose(matrices(x, y), np.exp(x @ y), rtol=1e-4)


REDUCED = {
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "GlobalMaxPool": lambda x: x.max((2, 3), keepdims=True),
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(3, keepdims=True),
    "InstanceNormalization": lambda x: (
        (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    ),
}


@pytest.fixture(scope="module", params=REDUCED)
def reduced(request):
    """One operator that goes along rows, and its meaning."""
    kind = request.param
    is_norm = kind == "InstanceNormalization"
    weights = {"one": np.ones(3, "float32"), "zero": np.zeros(3, "float32")} if is_norm else {}
    nodes = [(kind, ["x", *weights], "y", {"axis": 3} if kind == "Softmax" else {})]
    shapes = {"x": ["n", 3, "h", "w"]}, {"y": ["n", 3, "p", "q"]}
    return mlc.compile(mlc.from_onnx(model(nodes, *shapes, weights))), REDUCED[kind]


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 63, 64, 65, 200])
def test_rows(reduced, rows: int, width: int):
    """Whole vectors and what is left of a row, shorter than a vector and longer than all sums."""
    ex, meaning = reduced
    x = np.random.default_rng(width).standard_normal((2, 3, rows, width)).astype(np.float32)
    wanted = meaning(x.astype(np.float64))
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


def test_rows_are_added_up_by_vectors(reduced):
    """The main part of a row has no test in it, and takes several elements at a time."""
    ex, _ = reduced
    ((_, kernel),) = ex.kernels.items()
    assert max(facts.looped.vector for facts in kernel.facts.values()) >= 16
    text = kernel.lowered.script()
    assert " // T.int64(" in text
