"""Linear Resize of integers: all elements are those of ONNX Runtime, which rounds towards 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError

runtime = pytest.importorskip("onnxruntime")

KINDS = ("uint8", "int8", "int32")
MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def resize(
    kind: str, shape: Any, scales: Any = None, sizes: Any = None, opset: int = 18, **attrs: Any
) -> onnx.ModelProto:
    """A model of one Resize, linear, to sizes or by scales."""
    how = np.array(sizes, np.int64) if scales is None else np.array(scales, np.float32)
    inputs = ["x", "", "", "how"] if scales is None else ["x", "", "how"]
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        [helper.make_node("Resize", inputs, ["y"], **{"mode": "linear", **attrs})],
        "g",
        [helper.make_tensor_value_info("x", number, shape)],
        [helper.make_tensor_value_info("y", number, None)],
        [onnx.numpy_helper.from_array(how, "how")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def numbers(kind: str, shape: Any, seed: int = 0) -> np.ndarray:
    """All of a dtype's numbers; of int32 such that float32 does not hold, too."""
    info = np.iinfo(kind)
    low, high = max(info.min, -(2**27)), min(info.max, 2**27)
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(kind)


def check(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Both compilers give the same elements."""
    wanted = runtime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    found = np.asarray(mlc.compile(mlc.from_onnx(proto))(x))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_those_of_onnxruntime(kind, mode):
    for scales in ((2, 2), (3, 3), (2.5, 2), (1.7, 0.6), (0.7, 1.3)):
        proto = resize(kind, (2, 3, 12, 37), (1, 1, *scales), coordinate_transformation_mode=mode)
        check(proto, numbers(kind, (2, 3, 12, 37)))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(MODES),
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
)
def test_any_sizes(kind, mode, sides):
    shape = (1, 2, *sides[:2])
    proto = resize(kind, shape, sizes=(1, 2, *sides[2:]), coordinate_transformation_mode=mode)
    check(proto, numbers(kind, shape, sum(sides)))


def test_an_image_without_channels_and_one_axis_of_several():
    check(resize("uint8", (9, 5), (2, 3)), numbers("uint8", (9, 5)))
    check(resize("uint8", (1, 2, 9, 5), (2,), axes=[3]), numbers("uint8", (1, 2, 9, 5)))
    check(resize("int8", (1, 2, 9, 5), (1, 1, 1, 1)), numbers("int8", (1, 2, 9, 5)))


def test_one_number_throughout_may_become_the_next():
    """As ONNX Runtime has it: weights of thirds do not add up to 1 in float32."""
    x = np.full((1, 1, 8, 8), 100, np.uint8)
    assert set(np.unique(check(resize("uint8", x.shape, (1, 1, 3, 3)), x))) == {99, 100}


@pytest.mark.parametrize(
    ("attrs", "shape", "message"),
    [
        ({"mode": "cubic"}, (1, 1, 4, 4), "cubic interpolation of uint8"),
        ({"antialias": 1}, (1, 1, 4, 4), "linear interpolation of uint8"),
        (
            {"coordinate_transformation_mode": "half_pixel_symmetric"}, (1, 1, 4, 4),
            "half_pixel_symmetric interpolation of uint8",
        ),
        ({}, (1, 1, "h", 4), "linear interpolation of uint8 of open size"),
        ({"axes": [1, 3]}, (1, 1, 4, 4), "linear interpolation of uint8 of 4 dimensions"),
    ],
)  # fmt: skip
def test_what_is_refused(attrs, shape, message):
    scales = (2, 2) if "axes" in attrs else (1, 1, 2, 2)
    with pytest.raises(UnsupportedOpError, match=message):
        mlc.from_onnx(resize("uint8", shape, scales, opset=19, **attrs))
