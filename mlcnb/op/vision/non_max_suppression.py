"""Boxes that overlap: vision.non_max_suppression."""

from __future__ import annotations

import numpy as np

from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.vision._suppression import Suppression
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import Tensor, make_call, operator


@operator("relax.vision.non_max_suppression")
class NonMaxSuppression(Suppression):
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

    @property
    def is_centered(self) -> bool:
        """As `center_point_box` says."""
        return self.center_point_box


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
