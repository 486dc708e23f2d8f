"""Boxes and regions: get_valid_counts, multibox_transform_loc, roi_pool, roi_align and
all_class_non_max_suppression, against loops in Python and ONNX Runtime.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.ir import assert_structural_equal
from mlcnb.op.vision.roi_align import RoiAlign
from mlcnb.relax import BlockBuilder, TensorStructInfo, TupleStructInfo, op
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.script import parse
from mlcnb.tir import SizeVar
from tests.frontend.build import model, node
from tests.op.harness import numbers
from tests.op.test_non_max_suppression import one_by_one

B, N, C, H = (SizeVar(v, "int64") for v in "bnch")


def graph(make: Any, *infos: Any) -> Any:
    """A module that calls an operator on parameters of these shapes and dtypes."""
    bb = BlockBuilder()
    params = [Var(f"x{i}", tensor_info(*info)) for i, info in enumerate(infos)]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(make(*params)))
    mod = bb.get()
    assert_structural_equal(parse(mod.script()), mod)
    return mod


def result(mod: Any) -> Any:
    """What is known of the result."""
    return mod["main"].ret_struct_info


# get_valid_counts


def valid(data: np.ndarray, least: float, id_index: int, score_index: int) -> Any:
    """Row by row."""
    counts = np.zeros(len(data), np.int32)
    front, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for b, boxes in enumerate(data.tolist()):
        for i, box in enumerate(boxes):
            if box[score_index] > least and (id_index < 0 or box[id_index] >= 0):
                front[b, counts[b]], places[b, counts[b]] = box, i
                counts[b] += 1
    return counts, front, places


@pytest.mark.parametrize("target", ["llvm", "interp", "cuda-sim"])
@pytest.mark.parametrize(("id_index", "score_index"), [(0, 1), (-1, 0), (2, 3)])
def test_good_boxes_go_to_the_front(id_index: int, score_index: int, target: str) -> None:
    how = {"score_threshold": 0.25, "id_index": id_index, "score_index": score_index}
    mod = graph(lambda x: op.vision.get_valid_counts(x, **how), ((B, N, 6), "float32"))
    whole = TensorStructInfo([B, N, 6], "float32")
    rows = TensorStructInfo([B], "int32"), whole, TensorStructInfo([B, N], "int32")
    assert_structural_equal(result(mod), TupleStructInfo(rows), map_free_vars=True)
    ex = mlc.compile(mod, target=target)
    for shape in ((2, 9, 6), (1, 0, 6), (3, 1, 6)):
        x = numbers(shape, seed=sum(shape))
        if x.size:
            x[0, 0, score_index], x[0, -1, 0] = 0.25, np.nan
        for got, wanted in zip(ex(x), valid(x, 0.25, id_index, score_index), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_places_that_a_box_has_not() -> None:
    with pytest.raises(mlc.MLCError, match="score_index is 6, but a box of .* has 6 elements"):
        graph(lambda x: op.vision.get_valid_counts(x, score_index=6), ((1, 2, 6), "float32"))


# multibox_transform_loc


def decoded(scores: Any, offsets: Any, anchors: Any, how: dict[str, Any]) -> Any:
    """Box by box, in Python's floats."""
    samples, classes, n = scores.shape
    boxes, made = np.zeros((samples, n, 4)), np.zeros(scores.shape)
    vx, vy, vw, vh = how.get("variances", (1, 1, 1, 1))
    for b in range(samples):
        for a in range(n):
            x, y, w, h = (float(v) for v in offsets[b, 4 * a : 4 * a + 4])
            left, top, right, bottom = (float(v) for v in anchors[0, a])
            cy, cx = (
                y * vy * (bottom - top) + (top + bottom) / 2,
                (x * vx * (right - left) + (left + right) / 2),
            )
            dy = math.exp(h * vh) * (bottom - top) / 2
            dx = math.exp(w * vw) * (right - left) / 2
            box = [cy - dy, cx - dx, cy + dy, cx + dx]
            boxes[b, a] = [min(max(v, 0), 1) for v in box] if how.get("clip") else box
            row = [float(v) for v in scores[b, :, a]]
            if how.get("apply_softmax", True):
                powers = [math.exp(v) for v in row]
                row = [v / sum(powers) for v in powers]
            row = [v if v >= how.get("threshold", 0.0) else 0.0 for v in row]
            if not how.get("keep_background", True):
                row[0] = 0.0
            made[b, :, a] = row
    return boxes, made


MULTIBOX: list[dict[str, Any]] = [
    {},
    {"clip": True, "threshold": 0.3, "variances": (0.1, 0.2, 0.3, 0.4)},
    {"keep_background": False, "apply_softmax": False, "threshold": -0.5},
]


@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize("how", MULTIBOX, ids=lambda h: "-".join(h) or "plain")
def test_boxes_out_of_anchors(how: dict[str, Any], target: str) -> None:
    infos = ((B, C, N), "float32"), ((B, N * 4), "float32"), ((1, N, 4), "float32")
    mod = graph(lambda *xs: op.vision.multibox_transform_loc(*xs, **how), *infos)
    wanted = [TensorStructInfo(s, "float32") for s in ([B, N, 4], [B, C, N])]
    assert_structural_equal(result(mod), TupleStructInfo(tuple(wanted)), map_free_vars=True)
    ex = mlc.compile(mod, target=target)
    for b, c, n in ((2, 3, 5), (1, 1, 1), (2, 2, 0)):
        args = numbers((b, c, n)), numbers((b, 4 * n), seed=1), numbers((1, n, 4), seed=2)
        for got, right in zip(ex(*args), decoded(*args, how), strict=True):
            np.testing.assert_allclose(got, right, rtol=2e-5, atol=1e-6)


def test_shapes_of_anchors_that_do_not_fit() -> None:
    infos = ((2, 3, 5), "float32"), ((2, 16), "float32"), ((1, 5, 4), "float32")
    with pytest.raises(mlc.MLCError, match=r"loc_pred must be of shape \(2, 20\), but is"):
        graph(op.vision.multibox_transform_loc, *infos)


# roi_pool


def regions(count: int, samples: int, seed: int) -> np.ndarray:
    """Regions of all sizes, some of which reach outside or lie there."""
    rng = np.random.default_rng(seed)
    corners = np.sort(rng.uniform(-4, 14, (count, 2, 2)), axis=1).reshape(count, 4)
    rows = rng.integers(0, samples, (count, 1)) if samples else np.zeros((count, 1))
    return np.concatenate([rows, corners], axis=1).astype("float32")


def pooled(x: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float) -> np.ndarray:
    """Pixel by pixel: each goes to the bins that it lies in."""
    made = np.full((len(rois), x.shape[1], *size), -np.inf, np.float32)
    for n, (sample, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (math.floor(np.float32(c * np.float32(scale)) + 0.5) for c in corners)
        for h in range(x.shape[2]):
            for w in range(x.shape[3]):
                for i in range(size[0]):
                    for j in range(size[1]):
                        step_y = np.float32(max(y2 - y1 + 1, 1)) / np.float32(size[0])
                        step_x = np.float32(max(x2 - x1 + 1, 1)) / np.float32(size[1])
                        inside = math.floor(i * step_y) <= h - y1 < math.ceil((i + 1) * step_y)
                        inside &= math.floor(j * step_x) <= w - x1 < math.ceil((j + 1) * step_x)
                        if inside:
                            value = x[int(sample), :, h, w]
                            made[n, :, i, j] = np.maximum(made[n, :, i, j], value)
    return np.where(np.isneginf(made), 0, made)


@pytest.mark.parametrize("target", ["llvm", "interp", "cuda-sim"])
@pytest.mark.parametrize(("size", "scale"), [((2, 3), 0.5), (1, 1.0), ((7, 5), 0.75)])
def test_largest_pixels_of_regions(size: Any, scale: float, target: str) -> None:
    infos = ((B, 2, H, 9), "float32"), ((N, 5), "float32")
    mod = graph(lambda *xs: op.vision.roi_pool(*xs, size, scale), *infos)
    pair = (size, size) if isinstance(size, int) else size
    wanted = TensorStructInfo([N, 2, *pair], "float32")
    assert_structural_equal(result(mod), wanted, map_free_vars=True)
    ex = mlc.compile(mod, target=target)
    for b, h, n in ((2, 8, 6), (1, 1, 2), (2, 5, 0)):
        x, rois = numbers((b, 2, h, 9)), regions(n, b, n)
        np.testing.assert_array_equal(ex(x, rois), pooled(x, rois, pair, scale))


def test_regions_as_onnxruntime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    how = {"pooled_shape": [3, 2], "spatial_scale": 0.5}
    ins = "x: float[2, 3, 8, 9]; r: float[n, 5]"
    proto = model(ins, [node("MaxRoiPool", "x r", "y", **how)], "y: float[n, 3, 3, 2]")
    session = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto))
    for count in (1, 20):
        x, rois = numbers((2, 3, 8, 9)), np.maximum(regions(count, 2, count), 0)
        np.testing.assert_array_equal(ex(x, rois), session.run(None, {"x": x, "r": rois})[0])


def test_regions_of_samples_that_are_not_there() -> None:
    mod = graph(
        lambda *xs: op.vision.roi_pool(*xs, 2), ((2, 1, 4, 4), "float32"), ((1, 5), "float32")
    )
    rois = np.array([[2, 0, 0, 3, 3]], "float32")
    for target in ("llvm", "interp"):
        with pytest.raises(mlc.MLCError, match=r"vision\.roi_pool: rois"):
            mlc.compile(mod, target=target)(numbers((2, 1, 4, 4)), rois)


# all_class_non_max_suppression


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_rows_and_their_number(target: str) -> None:
    one = [((1,), "int64"), ((1,), "float32"), ((1,), "float32")]
    infos = ((2, N, 4), "float32"), ((2, 3, N), "float32"), *one
    both = graph(op.vision.all_class_non_max_suppression, *infos)
    assert [f.ndim for f in result(both).fields] == [2, 1]
    alone = graph(op.vision.non_max_suppression, *infos)
    ex, rows = mlc.compile(both, target=target), mlc.compile(alone, target="interp")
    for n in (12, 1, 0):
        low = numbers((2, n, 2), low=0, high=1)
        boxes = np.concatenate([low, low + 0.5], axis=-1)
        args = (
            boxes,
            numbers((2, 3, n), seed=1),
            np.array([4]),
            np.float32([0.4]),
            np.float32([0.1]),
        )
        got, count = ex(*args)
        wanted = rows(*args)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(count, [len(wanted)])


def sample_by_sample(boxes: Any, scores: Any, most: int, share: float, floor: Any) -> Any:
    """TensorFlow's form, box by box in plain Python."""
    samples, classes, n = scores.shape
    rows = np.zeros((samples, classes * n, 2), "int64")
    best, count = np.zeros((samples, classes * n), scores.dtype), np.zeros(samples, "int64")
    for b in range(samples):
        kept = [
            (c, i)
            for c in range(classes)
            for i in one_by_one(boxes[b], scores[b, c], most, share, floor)
        ]
        count[b] = len(kept)
        for k, (c, i) in enumerate(kept):
            rows[b, k], best[b, k] = (c, i), scores[b, c, i]
    return rows, best, count


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_rows_of_each_sample(target: str, kind: str) -> None:
    """TensorFlow's form has a place for each box of each class; the sizes are open here."""
    one = [((1,), "int64"), ((1,), "float32"), ((1,), "float32")]
    infos = ((B, N, 4), kind), ((B, C, N), kind), *one
    mod = graph(
        lambda *xs: op.vision.all_class_non_max_suppression(*xs, output_format="tensorflow"), *infos
    )
    infos = ((B, C * N, 2), "int64"), ((B, C * N), kind), ((B,), "int64")
    assert_structural_equal(result(mod), TupleStructInfo(tuple(tensor_info(*i) for i in infos)))
    ex = mlc.compile(mod, target=target)
    for b, c, n in ((2, 3, 12), (3, 1, 5), (1, 2, 1), (2, 2, 0), (0, 2, 3)):
        low = numbers((b, n, 2), low=0, high=1).astype(kind)
        boxes = np.concatenate([low, low + np.asarray(0.5, kind)], axis=-1)
        scores = numbers((b, c, n), seed=1).astype(kind)
        limits = np.array([4]), np.float32([0.4]), np.float32([0.1])
        wanted = sample_by_sample(boxes, scores, 4, 0.4, np.float32(0.1))
        for got, want in zip(ex(boxes, scores, *limits), wanted, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


def test_formats_that_are_not_there() -> None:
    infos = ((1, 5, 4), "float32"), ((1, 2, 5), "float32"), ((1,), "int64"), ((1,), "float32")
    with pytest.raises(mlc.MLCError, match="no output_format 'caffe'"):
        graph(
            lambda *xs: op.vision.all_class_non_max_suppression(*xs, output_format="caffe"),
            *infos,
            ((1,), "float32"),
        )


# roi_align


@settings(max_examples=20, deadline=None)
@given(
    size=st.tuples(st.integers(1, 30), st.integers(1, 40)),
    bins=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    scale=st.sampled_from([0.25, 0.5, 1.0]),
    aligned=st.booleans(),
    far=st.sampled_from([3, 20, 200]),
    length=st.sampled_from([-1, 0, 0.1, 1, 3]),
)
def test_regions_that_say_how_many_samples_a_bin_has(size, bins, scale, aligned, far, length):
    rng = np.random.default_rng(far)
    rois = (rng.standard_normal((9, 4)) * far).astype("float32")
    rois[:, 2:] = rois[:, :2] + np.abs(rois[:, 2:]) * np.float32(length)
    x, samples = numbers((2, 3, *size)), rng.integers(0, 2, 9)
    how = {"pooled_size": bins, "spatial_scale": scale, "aligned": aligned}
    infos = (x.shape, "float32"), ((N, 4), "float32"), ((N,), "int64")
    ex = mlc.compile(graph(lambda *xs: op.vision.roi_align(*xs, **how), *infos))
    exact = RoiAlign(**how).numpy(x, rois, samples)
    np.testing.assert_allclose(ex(x, rois, samples), exact, rtol=1e-4, atol=1e-5)
