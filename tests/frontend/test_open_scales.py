"""Resize by scales of images of open height and width, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError

onnxruntime = pytest.importorskip("onnxruntime")

SIZES = ((7, 9), (16, 16), (3, 5), (31, 40), (2, 2))


def model(scales, **attributes) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], name="n", **attributes)
    value = lambda name, dims: helper.make_tensor_value_info(name, 1, dims)
    given = numpy_helper.from_array(np.array([1, 1, *scales], np.float32), "s")
    graph = helper.make_graph(
        [node], "g", [value("x", [1, 3, "h", "w"])], [value("y", [1, 3, "a", "b"])], [given]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode, where, scales",
    [
        ("nearest", "half_pixel", (0.5, 0.5)),
        ("nearest", "asymmetric", (2 / 3, 1 / 3)),
        ("nearest", "tf_half_pixel_for_nn", (1.25, 2)),
        ("linear", "half_pixel", (1.5, 0.75)),
        ("linear", "pytorch_half_pixel", (0.5, 0.5)),
        ("linear", "pytorch_half_pixel", (0.5, 3)),
        ("linear", "asymmetric", (1.25, 2 / 3)),
        ("cubic", "half_pixel", (0.5, 3)),
        ("cubic", "pytorch_half_pixel", (2 / 3, 1.5)),
    ],
)
def test_scales_that_are_no_whole_numbers(mode, where, scales):
    made = model(scales, mode=mode, coordinate_transformation_mode=where)
    ex = mlc.compile(mlc.from_onnx(made))
    peer = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for size in SIZES:
        x = np.random.default_rng(0).standard_normal((1, 3, *size)).astype(np.float32)
        (expected,) = peer.run(None, {"x": x})
        found = np.asarray(ex(x))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=str(size))


@pytest.mark.parametrize("size", [(1, 3), (3, 1), (1, 1)])
def test_what_has_no_elements_left_is_empty(size):
    ex = mlc.compile(mlc.from_onnx(model((0.5, 0.5), mode="linear")))
    found = np.asarray(ex(np.ones((1, 3, *size), np.float32)))
    assert found.shape == (1, 3, size[0] // 2, size[1] // 2)


def test_a_scale_that_is_no_quotient_is_refused():
    with pytest.raises(UnsupportedOpError, match=r"'n' \(Resize.*0\.70710.*no quotient"):
        mlc.from_onnx(model((0.70710678, 1), mode="linear"))
