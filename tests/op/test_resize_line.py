"""Resize of tensors that are no batch of images: lines, one image, stacks of images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc

MODES = "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"


def resize(shape: tuple[int, ...], out: tuple[int, ...], **attrs: Any) -> onnx.ModelProto:
    sizes = [*shape[: len(shape) - len(out)], *out]
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, sizes)],
        [onnx.numpy_helper.from_array(np.array(sizes), "sizes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((2, 3, 10), (7,)),
        ((2, 3, 5), (16,)),
        ((1, 2, 1), (4,)),
        ((3, 5, 6), (8, 4)),
        ((2, 2, 3, 5, 6), (7, 9)),
    ],
)
def test_against_the_reference(shape: tuple[int, ...], out: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    for mode, transformation in itertools.product(("nearest", "linear", "cubic"), MODES):
        proto = resize(shape, out, mode=mode, coordinate_transformation_mode=transformation)
        ex = mlc.compile(mlc.from_onnx(proto), target="llvm")
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
        np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-4, err_msg=str(proto))
        is_product = any("matmul" in name for name in ex.kernels)
        assert not is_product or transformation == "half_pixel_symmetric"
