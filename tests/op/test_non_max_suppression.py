"""vision.non_max_suppression over many boxes: a piece of them at a time, as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb.op.vision.non_max_suppression import TOGETHER, NonMaxSuppression


def one_by_one(boxes: Any, scores: Any, most: int, share: float, floor: float) -> list[int]:
    """The boxes of one class that are kept, best first, from corners (y, x, y, x)."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    area = np.prod(high - low, axis=1)
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if scores[i] <= floor or len(kept) == most:
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
