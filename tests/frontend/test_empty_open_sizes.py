"""Operators that always read an element, of a tensor with a dimension of 0, in the model or in a
run: an error, never memory of others. Those that read none have a result.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, MLCError, TypeInferError

#: operator, inputs after the first, attributes
CASES = {
    "nearest": ("Resize", {"": None, "_": None, "s": [1, 1, 3, 4]}, {"mode": "nearest"}),
    "linear": ("Resize", {"": None, "_": None, "s": [1, 1, 3, 4]}, {"mode": "linear"}),
    "cubic": ("Resize", {"": None, "_": None, "s": [1, 1, 3, 4]}, {"mode": "cubic"}),
    "edge": ("Pad", {"p": [0, 0, 1, 0, 0, 0, 1, 0]}, {"mode": "edge"}),
    "border": ("GridSample", {"g": np.zeros((1, 2, 2, 2), "f")}, {"padding_mode": "border"}),
    "reflection": (
        "GridSample",
        {"g": np.zeros((1, 2, 2, 2), "f")},
        {"padding_mode": "reflection"},
    ),
    "first of the largest": ("ArgMax", {}, {"axis": 2}),
    "first of the smallest": ("ArgMin", {}, {"axis": 2, "keepdims": 0}),
    "gather": ("Gather", {"i": [0]}, {"axis": 2}),
    "region": (
        "RoiAlign",
        {"r": np.array([[0, 0, 2, 2]], "f"), "b": [0]},
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
    ),
    "region of its size": (
        "RoiAlign",
        {"r": np.array([[0, 0, 2, 2]], "f"), "b": [0]},
        {"output_height": 2, "output_width": 2},
    ),
}


def model(name: str, open_ones: list) -> onnx.ModelProto:
    op, rest, attrs = CASES[name]
    inputs = ["x", *(n if value is not None else "" for n, value in rest.items())]
    given = {n: np.array(value) for n, value in rest.items() if value is not None}
    node = helper.make_node(op, inputs, ["y"], name="n", **attrs)
    kind = onnx.TensorProto.INT64 if op.startswith("Arg") else onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, open_ones)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, n) for n, value in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_nothing_is_read_of_an_empty_tensor(name, target):
    ex = mlc.compile(mlc.from_onnx(model(name, [1, 1, "h", 4])), target=target)
    with pytest.raises((ExecutionError, TypeInferError)):
        ex(np.zeros((1, 1, 0, 4), "f"))


@pytest.mark.parametrize("name", CASES)
def test_a_size_of_zero_in_the_model_is_refused(name):
    with pytest.raises(MLCError):
        mlc.compile(mlc.from_onnx(model(name, [1, 1, 0, 4])), target="llvm")(
            np.zeros((1, 1, 0, 4), "f")
        )


#: operators that have a result
RESULTS = {
    "zeros": ("GridSample", {"g": np.zeros((1, 2, 3, 2), "f")}, {}, np.zeros((1, 1, 2, 3), "f")),
    "cubic": (
        "GridSample",
        {"g": np.ones((1, 2, 3, 2), "f")},
        {"mode": "bicubic"},
        np.zeros((1, 1, 2, 3), "f"),
    ),
    "hardmax": ("Hardmax", {}, {"axis": 2}, np.zeros((1, 1, 0, 4), "f")),
    "tile": ("Tile", {"r": [1, 2, 2, 3]}, {}, np.zeros((1, 2, 0, 12), "f")),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize("size", ["h", 0])
def test_what_nothing_is_read_for(name, target, size, monkeypatch):
    *case, expected = RESULTS[name]
    monkeypatch.setitem(CASES, name, tuple(case))
    ex = mlc.compile(mlc.from_onnx(model(name, [1, 1, size, 4])), target=target)
    np.testing.assert_array_equal(ex(np.zeros((1, 1, 0, 4), "f")), expected)


@pytest.mark.parametrize("name", CASES)
def test_one_row_is_enough(name):
    x = np.arange(4, dtype="f").reshape(1, 1, 1, 4)
    found = mlc.compile(mlc.from_onnx(model(name, [1, 1, "h", 4])), target="llvm")(x)
    fixed = mlc.compile(mlc.from_onnx(model(name, [1, 1, 1, 4])), target="llvm")(x)
    np.testing.assert_allclose(found, fixed, rtol=1e-6)
