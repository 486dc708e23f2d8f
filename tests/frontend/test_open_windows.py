"""ONNX images, caches and signals of open sizes: Resize in every mode, auto_pad in steps, columns
put back; at several sizes, beside ONNX's reference or ONNX Runtime.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from tests.frontend.build import model, node

IMAGES = ((1, 7, 10), (2, 16, 9), (1, 33, 5))


def compared(proto, cases, run, target="llvm", tol=1e-5):
    """The model beside another that runs it, on images of these sizes."""
    ex, rng = mlc.compile(mlc.from_onnx(proto), target), np.random.default_rng(0)
    for batch, *sides in cases:
        x = rng.standard_normal((batch, 2, *sides)).astype(np.float32)
        got, want = np.asarray(ex(x)), run(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


def resized(mode, coordinates="half_pixel", scales=None, sizes=None, roi=None, **attrs):
    given = {"s": np.array(scales, np.float32)} if scales else {"z": np.array(sizes, np.int64)}
    names = f"x {'r' if roi else '-'} {'s' if scales else '-'}{'' if scales else ' z'}"
    given |= {"r": np.array(roi, np.float32)} if roi else {}
    attrs |= {"mode": mode, "coordinate_transformation_mode": coordinates}
    return model(
        "x: float[b, 2, h, w]", [node("Resize", names, "y", **attrs)], "y: float", opset=19, **given
    )


REGION = [0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1]
RESIZED = {
    "corners": resized("linear", "align_corners", scales=[1, 1, 0.5, 1.5]),
    "corners, cubic": resized("cubic", "align_corners", scales=[1, 1, 2, 0.6]),
    "corners, nearest": resized("nearest", "align_corners", scales=[1, 1, 2, 0.5]),
    "smoothed": resized("linear", scales=[1, 1, 0.5, 0.6], antialias=1),
    "smoothed, cubic": resized("cubic", scales=[1, 1, 0.25, 1.5], antialias=1),
    "smoothed, without what is outside": resized(
        "cubic", scales=[1, 1, 0.6, 0.4], antialias=1, exclude_outside=1
    ),
    "smoothed to a size": resized("linear", sizes=[1, 2, 5, 12], antialias=1),
    "smoothed to a size, cubic": resized(
        "cubic", "pytorch_half_pixel", sizes=[1, 2, 4, 9], antialias=1
    ),
    "a region": resized(
        "linear", "tf_crop_and_resize", sizes=[1, 2, 5, 9], roi=REGION, extrapolation_value=2.0
    ),
    "symmetric": resized("linear", "half_pixel_symmetric", scales=[1, 1, 0.6, 1.5]),
}


ON_THREADS = [(name, "cuda-sim") for name in ("corners", "smoothed to a size, cubic")]


@pytest.mark.parametrize(("name", "target"), [*((name, "llvm") for name in RESIZED), *ON_THREADS])
def test_every_mode_of_resize(name, target):
    reference = ReferenceEvaluator(RESIZED[name])
    batches = [(1 if "size" in name or "region" in name else b, h, w) for b, h, w in IMAGES]
    compared(RESIZED[name], batches, lambda x: reference.run(None, {"x": x})[0], target)


def windows(op, side, strides, **attrs):
    attrs |= {"auto_pad": f"SAME_{side}", "strides": strides}
    stored = {}
    if op == "Conv":
        stored = {"k": np.random.default_rng(1).standard_normal((3, 2, 3, 2)).astype(np.float32)}
    names = "x k" if stored else "x"
    attrs |= {} if stored else {"kernel_shape": [3, 2]}
    return model(
        "x: float[b, 2, h, w]", [node(op, names, "y", **attrs)], "y: float", opset=19, **stored
    )


@pytest.mark.parametrize("strides", [[2, 2], [3, 1]])
@pytest.mark.parametrize("side", ["UPPER", "LOWER"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool", "counted"])
def test_auto_pad_in_steps(op, side, strides):
    peer = pytest.importorskip("onnxruntime", reason="the extra bench is not installed")
    attrs = {"count_include_pad": 1} if op == "counted" else {}
    proto = windows("AveragePool" if op == "counted" else op, side, strides, **attrs)
    proto.ir_version = 9
    session = peer.InferenceSession(proto.SerializeToString())
    compared(proto, [*IMAGES, (1, 1, 1)], lambda x: session.run(None, {"x": x})[0], tol=1e-4)


def test_places_of_maxima_that_only_a_run_pads_are_refused():
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    proto = model(
        "x: float[b, 2, h, w]", [node("MaxPool", "x", "y i", **attrs)], "y: float; i: int64"
    )
    with pytest.raises(mlc.core.errors.UnsupportedOpError, match="auto_pad with strides needs"):
        mlc.from_onnx(proto)


def test_columns_are_put_back_into_an_image_of_another_size():
    nodes = [
        node("Shape", "like", "sides", start=2),
        node("Col2Im", "x sides block", "y", pads=[1, 0, 1, 1], strides=[2, 1]),
    ]
    proto = model(
        "x: float[b, 12, n]; like: float[1, 1, h, w]", nodes, "y: float", opset=19,
        block=np.array([3, 2], np.int64),
    )  # fmt: skip
    ex, reference = mlc.compile(mlc.from_onnx(proto)), ReferenceEvaluator(proto)
    for batch, tall, wide in IMAGES:
        places = ((tall + 2 - 3) // 2 + 1) * (wide + 1 - 2 + 1)
        x = np.random.default_rng(2).standard_normal((batch, 12, places)).astype(np.float32)
        given = {"x": x, "like": np.zeros((1, 1, tall, wide), np.float32)}
        (want,) = reference.run(None, given)
        np.testing.assert_allclose(np.asarray(ex(*given.values())), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_that_may_be_negative(mode):
    """As many columns as another image has: added, or cut off."""
    nodes = [
        node("Shape", "x", "have", start=3),
        node("Shape", "like", "want", start=3),
        node("Sub", "want have", "more"),
        node("Concat", "zero more", "pads", axis=0),
        node("Pad", "x pads - axes", "y", mode=mode),
    ]
    proto = model(
        "x: float[b, 2, h, w]; like: float[1, 1, 1, v]", nodes, "y: float", opset=19,
        zero=np.array([0], np.int64), axes=np.array([3], np.int64),
    )  # fmt: skip
    ex = mlc.compile(mlc.from_onnx(proto))
    words = {} if mode == "constant" else {"mode": mode}
    for (batch, tall, wide), want in zip(IMAGES, (16, 9, 3), strict=True):
        x = np.random.default_rng(3).standard_normal((batch, 2, tall, wide)).astype(np.float32)
        padded = np.pad(x, [(0, 0)] * 3 + [(0, max(want - wide, 0))], **(words or {}))
        got = np.asarray(ex(x, np.zeros((1, 1, 1, want), np.float32)))
        np.testing.assert_array_equal(got, padded[..., :want])


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_caches_of_open_length_are_written(mode):
    nodes = [node("TensorScatter", "cache new first", "y", mode=mode)]
    inputs = "cache: float[b, 2, m, 4]; new: float[b, 2, n, 4]; first: int64[b]"
    proto = model(inputs, nodes, "y: float", opset=24)
    ex, reference = mlc.compile(mlc.from_onnx(proto)), ReferenceEvaluator(proto)
    rng = np.random.default_rng(4)
    for batch, room, count in ((2, 7, 3), (1, 5, 5), (3, 20, 1)):
        given = {
            "cache": rng.standard_normal((batch, 2, room, 4)).astype(np.float32),
            "new": rng.standard_normal((batch, 2, count, 4)).astype(np.float32),
            "first": rng.integers(0, room if mode == "circular" else room - count + 1, batch),
        }
        (want,) = reference.run(None, given)
        np.testing.assert_array_equal(np.asarray(ex(*given.values())), want)


@pytest.mark.parametrize("attrs", [{}, {"onesided": 1}, {"inverse": 1}])
def test_spectra_of_a_known_length_of_signals_of_an_open_one(attrs):
    """Zeros behind those that are shorter, a cut of those that are longer."""
    parts = 2 if "inverse" in attrs else 1
    proto = model(
        f"x: float[b, n, {parts}]", [node("DFT", "x length", "y", axis=1, **attrs)], "y: float",
        opset=19, length=np.array(12),
    )  # fmt: skip
    ex, reference = mlc.compile(mlc.from_onnx(proto)), ReferenceEvaluator(proto)
    for batch, size in ((2, 7), (1, 12), (3, 33)):
        x = np.random.default_rng(5).standard_normal((batch, size, parts)).astype(np.float32)
        (want,) = reference.run(None, {"x": x})
        np.testing.assert_allclose(np.asarray(ex(x)), want, rtol=1e-5, atol=1e-5)
