"""vision.non_max_suppression over many boxes: a piece of them at a time, as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.op.vision.non_max_suppression import TOGETHER, NonMaxSuppression


def one_by_one(boxes: Any, scores: Any, most: int, share: float, floor: float) -> list[int]:
    """The boxes of one class that are kept, best first, from corners (y, x, y, x)."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    area = np.prod(high - low, axis=1)
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if not scores[i] > floor or len(kept) == most:
            break
        both = [float(np.prod(np.clip(np.minimum(high[i], high[k]) - np.maximum(low[i], low[k]),
                                      0, None))) for k in kept]  # fmt: skip
        ratios = [b / (area[i] + area[k] - b) for b, k in zip(both, kept, strict=True) if b > 0]
        if not any(r > share for r in ratios):
            kept.append(i)
    return kept


@pytest.mark.parametrize("most", [0, 3, TOGETHER, 1000])
def test_many_boxes(most: int) -> None:
    rng = np.random.default_rng(most)
    count = 3 * TOGETHER + 5
    corner, side = rng.integers(0, 40, (2, count, 2)), rng.integers(1, 12, (2, count, 2))
    boxes = np.concatenate([corner, corner + side], -1).astype("float32")
    scores = (rng.integers(0, 20, (2, 2, count)) / 20).astype("float32")
    limits = np.array([most]), np.array([0.25], "float32"), np.array([0.1], "float32")
    found = NonMaxSuppression().numpy(boxes, scores, *limits)
    expected = [
        (b, c, i)
        for b in range(2)
        for c in range(2)
        for i in one_by_one(boxes[b], scores[b, c], most, 0.25, np.float32(0.1))
    ]
    np.testing.assert_array_equal(found, np.array(expected, np.int64).reshape(-1, 3))


@pytest.mark.parametrize("boxes_of", [40, 1_000])
@pytest.mark.parametrize("center", [False, True])
def test_good_ones_few_and_many(boxes_of: int, center: bool) -> None:
    """Classes of which none, a few, or most boxes are good; equal scores and NaN among them."""
    rng = np.random.default_rng(boxes_of)
    boxes = (rng.random((2, boxes_of, 4)) * 50).astype("float32")
    shares = np.array([0.0, 0.02, 0.3, 1.0])[:, None]
    scores = np.where(rng.random((2, 4, boxes_of)) < shares, rng.integers(5, 40, boxes_of), 1)
    scores = scores.astype("float32") / 40
    scores[:, :, 3], scores[1, 3, 17] = np.nan, np.inf
    limits = np.array([30]), np.array([0.4], "float32"), np.array([0.1], "float32")
    low, high = boxes[..., :2], boxes[..., 2:]
    corners = np.concatenate([low - high / 2, low + high / 2], -1) if center else boxes
    expected = [
        (b, c, i)
        for b in range(2)
        for c in range(4)
        for i in one_by_one(corners[b], scores[b, c], 30, 0.4, 0.1)
    ]
    bb = mlc.relax.BlockBuilder()
    arrays = {"b": boxes, "s": scores, "m": limits[0], "o": limits[1], "l": limits[2]}
    given = [
        mlc.relax.Var(name, mlc.relax.TensorStructInfo(a.shape, str(a.dtype)))
        for name, a in arrays.items()
    ]
    with bb.function("main", given):
        made = mlc.relax.op.vision.non_max_suppression(*given, center_point_box=center)
        bb.emit_func_output(bb.emit(made))
    np.testing.assert_array_equal(mlc.compile(bb.get())(boxes, scores, *limits), expected)
