"""DeformConv as ONNX's reference has it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError
from tests.frontend.build import model, node


def check(proto, **inputs):
    """The same numbers as the reference, compiled."""
    (wanted,) = ReferenceEvaluator(proto).run(None, inputs)
    found = mlc.compile(mlc.from_onnx(proto))(*inputs.values())
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("groups", "parts", "stride", "dilation", "size"),
    [(1, 1, 1, 1, (5, 6)), (2, 1, 2, 1, (7, 5)), (1, 2, 1, 2, (6, 7)), (2, 4, 1, 1, (4, 3))],
)
def test_taps_lie_where_offsets_say(groups, parts, stride, dilation, size, masked):
    rng = np.random.default_rng(0)
    rows, columns = (
        (s + 2 - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(size, (2, 3), strict=True)
    )
    shapes = {
        "x": (2, 4, *size),
        "w": (6, 4 // groups, 2, 3),
        "o": (2, parts * 12, rows, columns),
        "b": (6,),
        "m": (2, parts * 6, rows, columns),
    }
    values = {k: rng.normal(0, 1, s).astype(np.float32) for k, s in shapes.items()}
    given_ = values if masked else {k: values[k] for k in "xwo"}
    inputs = "; ".join(f"{k}: float[{', '.join(map(str, v.shape))}]" for k, v in given_.items())
    made = node(
        "DeformConv", " ".join(given_), "y", group=groups, offset_group=parts,
        pads=[1, 1, 1, 1], strides=[stride] * 2, dilations=[dilation] * 2,
    )  # fmt: skip
    check(model(inputs, [made], "y: float", opset=19), **given_)


def test_an_image_of_one_row():
    """A convolution, where no offset is anything."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    w = np.array([[[[1, 2]]]], np.float32)
    proto = model(
        "x: float[1, 1, 1, 4]", [node("DeformConv", "x w o", "y")], "y: float", opset=19,
        w=w, o=np.zeros((1, 4, 1, 3), np.float32),
    )  # fmt: skip
    found = mlc.compile(mlc.from_onnx(proto))(x)
    np.testing.assert_allclose(found, [[[[2, 5, 8]]]], rtol=1e-6)


def test_offsets_that_do_not_fit_are_refused():
    proto = model(
        "x: float[1, 2, 4, 4]", [node("DeformConv", "x w o", "y", name="d")], "y: float", opset=19,
        w=np.zeros((1, 2, 2, 2), np.float32), o=np.zeros((1, 6, 3, 3), np.float32),
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError) as caught:
        mlc.from_onnx(proto)
    assert caught.value.message == (
        "the model: node 'd' (DeformConv, opset 19): 2 channels, 1 groups of 6 offsets and a "
        "kernel (1, 2, 2, 2) do not fit"
    )
