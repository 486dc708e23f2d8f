"""GridSample, each method at places far outside too, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import mlcnb as mlc

WAYS = [(padding, corners) for padding in ("zeros", "border", "reflection") for corners in (0, 1)]


def model(mode: str, x: np.ndarray, grid: np.ndarray):
    """One node for each way of padding."""
    nodes = [
        helper.make_node("GridSample", ["x", "grid"], [f"y{n}"], mode=mode, padding_mode=padding,
                         align_corners=corners)
        for n, (padding, corners) in enumerate(WAYS)
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [info(k, TensorProto.FLOAT, v.shape) for k, v in (("x", x), ("grid", grid))]
    shape = [*x.shape[:2], *grid.shape[1:3]]
    outputs = [info(f"y{n}", TensorProto.FLOAT, shape) for n in range(len(WAYS))]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [(5, 6), (2, 1)])
def test_places_inside_and_outside(mode, size):
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 2, *size)).astype("float32")
    grid = random.uniform(-3, 3, (2, 5, 8, 2)).astype("float32")
    made = model(mode, x, grid)
    expected = ort.InferenceSession(made.SerializeToString()).run(None, {"x": x, "grid": grid})
    for way, y, z in zip(WAYS, mlc.compile(mlc.from_onnx(made))(x, grid), expected, strict=True):
        np.testing.assert_allclose(np.asarray(y), z, rtol=1e-3, atol=1e-4, err_msg=str(way))
