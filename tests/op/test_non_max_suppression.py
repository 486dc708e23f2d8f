"""vision.non_max_suppression over many boxes: a piece of them at a time, as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.op.vision._suppression import TOGETHER
from mlcnb.op.vision.non_max_suppression import NonMaxSuppression


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
    found = compiled([boxes, scores, *limits], center)(boxes, scores, *limits)
    np.testing.assert_array_equal(found, expected)


SPREAD = {
    "even": lambda rng, n: rng.random(n),
    "most near 0": lambda rng, n: rng.random(n) ** 8,
    "of all sizes": lambda rng, n: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-37, 37, n),
    "a few values": lambda rng, n: rng.integers(-2, 3, n) / 2,
    "all equal": lambda rng, n: np.ones(n),
    "rising": lambda rng, n: np.arange(n) / n,
}


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("spread", SPREAD)
def test_some_at_a_time(spread: str, target: str) -> None:
    """More good boxes than are sorted at once, of which many share too much; all floors."""
    rng = np.random.default_rng(3)
    for kind, side in (("float32", 150), ("float64", 9)):
        corners = rng.integers(0, 160, (1, 900, 2))
        boxes = np.concatenate([corners, corners + rng.integers(1, side, (1, 900, 2))], -1)
        scores = SPREAD[spread](rng, 900)[None, None].astype(kind)
        scores[0, 0, 5:8] = np.nan, np.inf, -np.inf
        boxes, share = boxes.astype(kind), np.array([0.3], kind)
        given = [boxes, scores, np.array([7]), share, np.array([0.1], kind)]
        run = compiled(given, False, target)
        for most in (0, 7, 100, 2**62):
            for floor in (0.1, -np.inf, 0.0, np.inf, np.nan):
                given[2], given[4] = np.array([most]), np.array([floor], kind)
                kept = one_by_one(boxes[0], scores[0, 0], most, share[0], given[4][0])
                rows = np.reshape([(0, 0, i) for i in kept], (-1, 3))
                np.testing.assert_array_equal(run(*given), rows)


def test_boxes_are_compared_by_vectors() -> None:
    shapes = (1, 500, 4), (1, 1, 500), (1,), (1,), (1,)
    kinds = ["float32", "float32", "int64", "float32", "float32"]
    given = [np.zeros(s, k) for s, k in zip(shapes, kinds, strict=True)]
    source = compiled(given, False, "llvm -mcpu=haswell").get_source("asm")
    assert "divps" in source and "divss" not in source


def compiled(arrays: list[Any], center: bool, target: str = "llvm") -> Any:
    """non_max_suppression of such arrays."""
    bb = mlc.relax.BlockBuilder()
    given = [
        mlc.relax.Var(name, mlc.relax.TensorStructInfo(a.shape, str(a.dtype)))
        for name, a in zip("bsmol", arrays, strict=True)
    ]
    with bb.function("main", given):
        made = mlc.relax.op.vision.non_max_suppression(*given, center_point_box=center)
        bb.emit_func_output(bb.emit(made))
    return mlc.compile(bb.get(), target=target)
