"""Resize of tensors that are no batch of images: lines, one image, stacks of images."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
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


@pytest.mark.parametrize("mode", MODES[:-1])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_halves_are_halves_where_sizes_are_open(mode: str, rounding: str) -> None:
    """13 * 27 / 26 is a half, and 27 / 26 is no number: all four axes, which are no image."""
    out, attrs = (27, 3, 5, 9), {"mode": "nearest", "coordinate_transformation_mode": mode}
    proto = resize((1, 1, 1, 1), out, nearest_mode=rounding, **attrs)
    for name, dim in zip("abcd", proto.graph.input[0].type.tensor_type.shape.dim, strict=True):
        dim.dim_param = name
    ex = mlc.compile(mlc.from_onnx(proto), target="llvm")
    for shape in ((28, 5, 3, 7), (20, 2, 9, 17), (3, 1, 6, 4)):
        x = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        known = mlc.compile(mlc.from_onnx(resize(shape, out, nearest_mode=rounding, **attrs)))
        np.testing.assert_array_equal(ex(x), known(x))
        places = [
            [_place(mode, rounding, o, size, to) for o in range(to)]
            for size, to in zip(shape, out, strict=True)
        ]
        np.testing.assert_array_equal(ex(x), x[np.ix_(*places)])


def _place(mode: str, rounding: str, o: int, size: int, to: int) -> int:
    at = {
        "half_pixel": Fraction((2 * o + 1) * size, 2 * to) - Fraction(1, 2),
        "pytorch_half_pixel": Fraction((2 * o + 1) * size, 2 * to) - Fraction(1, 2),
        "align_corners": Fraction(o * (size - 1), max(to - 1, 1)),
        "asymmetric": Fraction(o * size, to),
    }[mode]
    found = {
        "floor": math.floor(at),
        "ceil": math.ceil(at),
        "round_prefer_floor": math.ceil(at - Fraction(1, 2)),
        "round_prefer_ceil": math.floor(at + Fraction(1, 2)),
    }[rounding]
    return min(max(found, 0), size - 1)
