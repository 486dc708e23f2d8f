"""Boxes that overlap: vision.non_max_suppression.

How many are left depends on the data: there are no loops, the virtual machine calls the meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.op._dims import refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator

#: boxes that are compared with each other at a time
TOGETHER = 64


@operator("relax.vision.non_max_suppression")
class NonMaxSuppression(OpDecl):
    """Rows (sample, class, box), int64: of each sample and class the boxes that are kept.

    boxes (samples, n, 4): two opposite corners (y, x, y, x), or with center_point_box (x, y, width,
    height); scores (samples, classes, n). By falling score, of equal ones the first: a box is kept
    unless it shares more than `iou_threshold` of its union with one that was kept; at most
    `max_boxes` of them, all with more than `score_threshold`. The three are tensors of one element.
    Semantics: https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """

    boxes: Tensor
    scores: Tensor
    max_boxes: Tensor
    iou_threshold: Tensor
    score_threshold: Tensor
    center_point_box: bool = False

    def infer(self, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
        """A matrix of unknown size."""
        want_kinds(self, FLOATS, boxes=boxes, scores=scores)
        want_same_dtype(self, boxes=boxes, scores=scores)
        want_rank(self, "boxes", boxes, 3)
        want_rank(self, "scores", scores, 3)
        if most.dtype and not most.dtype.is_integer:
            refuse(self, f"max_boxes must be an integer, but is {tell(most)}")
        return tensor(None, "int64", 2)

    def partly(self, *infos: Any) -> Any:
        """Three columns."""
        return [None, 3]

    def numpy(self, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
        """Class by class"""
        limit, share, floor = (np.reshape(v, -1)[0] for v in (most, overlap, least))
        found = [
            (b, c, i)
            for b in range(scores.shape[0])
            for c in range(scores.shape[1])
            for i in self.kept(boxes[b], scores[b, c], int(limit), share, floor)
        ]
        return np.array(found, np.int64).reshape(-1, 3)

    def kept(self, boxes: np.ndarray, scores: np.ndarray, most: int, share: Any, floor: Any) -> Any:
        """The boxes of one class that are kept, best first."""
        low, high = self.corners(boxes)
        area = np.prod(high - low, axis=1)
        order = np.argsort(-scores, kind="stable")
        left = order[scores[order] > floor]

        def shared(a: Any, b: Any) -> Any:
            """Which boxes of `a`, in rows, share too much with which of `b`."""
            a = np.reshape(a, (-1, 1))
            side = np.minimum(high[a], high[b]) - np.maximum(low[a], low[b])
            both = np.prod(np.maximum(side, 0), axis=-1)
            joint = area[a] + area[b] - both
            sound = (area[a] > 0) & (area[b] > 0) & (joint > 0) & (both > 0)
            return np.divide(both, joint, out=np.zeros_like(both), where=sound) > share

        kept: list[int] = []
        for start in range(0, len(left), TOGETHER):
            if len(kept) >= most:
                break
            some = left[start : start + TOGETHER]
            some = some[~np.any(shared(some, np.array(kept, np.int64)), axis=1)]
            gone, near = np.zeros(len(some), bool), shared(some, some)
            for place, box in enumerate(some.tolist()):
                if not gone[place]:
                    kept.append(box)
                    gone |= near[place]
        return kept[: max(most, 0)]

    def corners(self, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper corner of each box."""
        a, b = boxes[:, :2], boxes[:, 2:]
        if self.center_point_box:
            return a - b / 2, a + b / 2
        return np.minimum(a, b), np.maximum(a, b)


@onnx("NonMaxSuppression", since=10)
def onnx_non_max_suppression(
    n: OnnxNode,
    boxes: Expr,
    scores: Expr,
    most: Expr | None = None,
    overlap: Expr | None = None,
    least: Expr | None = None,
) -> Expr:
    """Without a number of boxes there are none; without a score all are good enough."""
    limits = (
        most or const(np.zeros(1, np.int64)),
        overlap or const(np.zeros(1, np.float32)),
        least or const(np.full(1, -np.inf, np.float32)),
    )
    center = bool(n.attr("center_point_box", 0))
    return make_call(NonMaxSuppression, boxes, scores, *limits, center_point_box=center)
