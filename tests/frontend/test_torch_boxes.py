"""torchvision's operators on boxes and regions in PyTorch programs.

The package is not needed: where it is absent its operators are declared here as it declares them,
and what they give is that of NumPy, ONNX's reference or ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from mlcnb.core.errors import MLCError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

DECLARED = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}


def pooled(x: Any, rois: Any, _scale: float, height: int, width: int, *_more: Any) -> Any:
    return x.new_empty((rois.shape[0], x.shape[1], height, width))


def few(dets: Any, _scores: Any, _threshold: float) -> Any:
    count = torch.library.get_ctx().new_dynamic_size(min=0)
    return dets.new_empty((count,), dtype=torch.int64)


def window(x: Any, w: Any, _offset: Any, _mask: Any, _bias: Any, *given: Any) -> Any:
    steps, pads, spread = given[:2], given[2:4], given[4:6]
    sizes = [
        (x.shape[i + 2] + 2 * pads[i] - spread[i] * (w.shape[i + 2] - 1) - 1) // steps[i] + 1
        for i in (0, 1)
    ]
    return x.new_empty((x.shape[0], w.shape[0], *sizes))


SHAPES = {
    "nms": few,
    "roi_align": pooled,
    "roi_pool": lambda *args: (pooled(*args), pooled(*args).to(torch.int32)),
    "deform_conv2d": window,
}


@pytest.fixture(scope="module", autouse=True)
def operators():
    """The operators, as long as the tests of this module run."""
    missing = [name for name in DECLARED if not hasattr(torch.ops.torchvision, name)]
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        for name in missing:
            library.define(name + DECLARED[name])
            torch.library.register_fake(f"torchvision::{name}", SHAPES[name], lib=library)
        yield


class Called(torch.nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(torch.ops.torchvision, *args)


def compiled(call: Any, *args: np.ndarray, dynamic: Any = None, target: str = "llvm") -> Any:
    given = tuple(map(torch.from_numpy, args))
    shapes = None if dynamic is None else (dynamic,)
    return mlc.compile(mlc.from_torch(Called(call), given, dynamic_shapes=shapes), target)


def kept(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """One box after the other, as the operator's description says."""
    low, high = boxes[:, :2], boxes[:, 2:]
    area = (high - low).prod(1)
    order = torch.sort(torch.from_numpy(scores), stable=True, descending=True).indices.tolist()
    found: list[int] = []
    for i in order:
        sides = np.minimum(high[i], high[found]) - np.maximum(low[i], low[found])
        both = np.maximum(sides, 0).prod(1)
        with np.errstate(all="ignore"):
            shares = both / (area[i] + area[found] - both)
        if not (shares.astype("float64") > threshold).any():
            found.append(i)
    return found


def boxes_of(count: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    corner = rng.integers(0, 6, (count, 4)) if whole else rng.random((count, 4)) * 20
    if not whole:
        corner[:, 2:] += corner[:, :2]
    scores = rng.integers(0, 5, count) if whole else rng.random(count)
    return corner.astype("float32"), scores.astype("float32")


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.3, 0.5, 0.6, 1.0])
@pytest.mark.parametrize("whole", [False, True])
def test_boxes_that_overlap_better_ones_go(threshold: float, whole: bool):
    """Whole corners: shares that are the threshold itself, equal scores, swapped corners."""
    boxes, scores = boxes_of(120, whole)
    if whole:
        scores[[3, 7, 9]] = -np.inf, np.nan, np.inf
    ex = compiled(lambda ops, b, s: ops.nms(b, s, threshold), boxes, scores)
    assert np.asarray(ex(boxes, scores)).tolist() == kept(boxes, scores, threshold)


def test_more_boxes_than_half_precision_counts():
    rng = np.random.default_rng(1)
    corner = rng.integers(0, 500, (3000, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 9, (3000, 2))], 1).astype("float16")
    scores = rng.integers(0, 900, 3000).astype("float16")
    ex = compiled(lambda ops, b, s: ops.nms(b, s, 0.5), boxes, scores)
    assert np.asarray(ex(boxes, scores)).tolist() == kept(boxes, scores, 0.5)


def test_of_an_open_number_of_boxes_what_is_kept_goes_on():
    rows = {0: torch.export.Dim.DYNAMIC}
    ex = compiled(
        lambda ops, b, s: b[ops.nms(b, s, 0.4)] * 2, *boxes_of(30, False), dynamic=(rows, rows)
    )
    for count in (30, 7, 1):
        boxes, scores = boxes_of(count, False)
        want = boxes[kept(boxes, scores, 0.4)] * 2
        np.testing.assert_array_equal(np.asarray(ex(boxes, scores)), want)


def test_no_share_is_below_zero():
    boxes, scores = boxes_of(5, False)
    with pytest.raises(MLCError, match="may share -0.5"):
        compiled(lambda ops, b, s: ops.nms(b, s, -0.5), boxes, scores)


def regions() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 20, 24)).astype("float32")
    corners = rng.random((9, 4)) * 20
    corners[:, 2:] += corners[:, :2] + 1
    corners[0] = -1, -3, 5, 7
    samples = rng.integers(0, 2, (9, 1))
    return x, np.concatenate([samples, corners], 1).astype("float32")


def onnx_of(op: str, inputs: list[np.ndarray], **attributes: Any) -> Any:
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    names = [f"i{n}" if x is not None else "" for n, x in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(n, kinds[x.dtype.name], x.shape)
        for n, x in zip(names, inputs, strict=True)
        if n
    ]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", infos, out)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return model, {n: x for n, x in zip(names, inputs, strict=True) if n}


@pytest.mark.parametrize("samples", [2, 0, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_regions_that_are_sampled(samples: int, aligned: bool):
    x, rois = regions()
    ex = compiled(lambda ops, a, r: ops.roi_align(a, r, 0.5, 3, 4, samples, aligned), x, rois)
    model, given = onnx_of(
        "RoiAlign",
        [x, rois[:, 1:], rois[:, 0].astype("int64")],
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=3,
        output_width=4,
        sampling_ratio=max(samples, 0),
        spatial_scale=0.5,
    )
    (want,) = ReferenceEvaluator(model).run(None, given)
    np.testing.assert_allclose(np.asarray(ex(x, rois)), want, rtol=1e-4, atol=1e-5)


def test_the_largest_of_regions():
    ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    x, rois = regions()
    rois[1:5, 1:] = np.round(rois[1:5, 1:]) + 1  # halves, once they are scaled
    ex = compiled(lambda ops, a, r: ops.roi_pool(a, r, 0.5, 3, 4)[0], x, rois)
    model, given = onnx_of("MaxRoiPool", [x, rois], pooled_shape=[3, 4], spatial_scale=0.5)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(np.asarray(ex(x, rois)), session.run(None, given)[0])


@pytest.mark.parametrize(
    ("groups", "places", "steps", "pads", "spread", "masked"),
    [
        (1, 1, (1, 1), (0, 0), (1, 1), False),
        (1, 1, (1, 1), (1, 1), (1, 1), True),
        (2, 2, (2, 1), (1, 2), (2, 1), True),
    ],
)
def test_a_window_that_is_bent(groups, places, steps, pads, spread, masked):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 4, 9, 8)).astype("float32")
    w = rng.standard_normal((6, 4 // groups, 3, 2)).astype("float32")
    bias = rng.standard_normal(6).astype("float32")
    high, wide = (
        (x.shape[i + 2] + 2 * pads[i] - spread[i] * (w.shape[i + 2] - 1) - 1) // steps[i] + 1
        for i in (0, 1)
    )
    offset = rng.standard_normal((2, 2 * places * 6, high, wide)).astype("float32")
    mask = rng.random((2, places * 6, high, wide)).astype("float32")
    more = (*steps, *pads, *spread, groups, places, masked)
    ex = compiled(
        lambda ops, x, w, o, m, b: ops.deform_conv2d(x, w, o, m, b, *more), x, w, offset, mask, bias
    )
    model, given = onnx_of(
        "DeformConv",
        [x, w, offset, bias, mask if masked else None],
        kernel_shape=[3, 2],
        strides=steps,
        pads=(*pads, *pads),
        dilations=spread,
        group=groups,
        offset_group=places,
    )
    (want,) = ReferenceEvaluator(model).run(None, given)
    got = np.asarray(ex(x, w, offset, mask, bias))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
