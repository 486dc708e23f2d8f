"""Cases of recurrent layers, of boxes and regions, and of determinants."""

from __future__ import annotations

import numpy as np

from mlcnb.op.linear_algebra import determinant, solve
from mlcnb.op.nn import recurrent
from mlcnb.op.nn._recurrent_activations import TABLE
from mlcnb.op.vision import all_class_non_max_suppression as all_class_nms
from mlcnb.op.vision import boxes, roi_align, roi_pool
from mlcnb.op.vision import non_max_suppression as nms
from tests.op.harness import Case, numbers

MODULES = (
    "mlcnb.op.linear_algebra.determinant",
    "mlcnb.op.linear_algebra.solve",
    "mlcnb.op.nn.recurrent",
    "mlcnb.op.vision.all_class_non_max_suppression",
    "mlcnb.op.vision.boxes",
    "mlcnb.op.vision.non_max_suppression",
    "mlcnb.op.vision.roi_align",
    "mlcnb.op.vision.roi_pool",
)
LENGTHS = np.array([3, 0], np.int32)


def _layer(gates, kind="float32"):
    """x, weight and a state of 3 steps, 2 samples and 2 hidden elements."""
    return [numbers(s, kind, seed=i, low=-2, high=2) for i, s in enumerate(
        [(3, 2, 2 * gates), (2, 2 * gates), (2, 2)])]  # fmt: skip


def _layers():
    for reverse in (False, True):
        for lengths in (None, LENGTHS):
            note = f"{reverse}-{lengths is not None}"
            yield Case(recurrent.Rnn(reverse), [*_layer(1), lengths], 1e-5, note=note)
            bias = numbers((2,), seed=4)
            for early in (False, True):
                made = recurrent.Gru(reverse, linear_before_reset=early)
                yield Case(made, [*_layer(3), bias, lengths], 1e-5, note=f"{note}-{early}")
            x, w, h = _layer(4)
            c, seen = numbers((2, 2), seed=5), numbers((6,), seed=6)
            yield Case(recurrent.Lstm(reverse), [x, w, h, c, seen, lengths], 1e-5, note=note)
    made = recurrent.Lstm(clip=0.5, input_forget=True)
    yield Case(made, [x, w, h, c, None, None], 1e-5, note="clip")
    for name in TABLE:
        made = recurrent.Rnn(activations=((name, 0.5, 0.25),))
        yield Case(made, [*_layer(1), None], 1e-5, note=name)
    yield Case(recurrent.Rnn(), [*_layer(1, "float16"), None], 4e-3)


def _boxes():
    low = numbers((1, 5, 2), low=0, high=1)
    corners = np.concatenate([low, low + 0.5], axis=-1)
    limits = [np.array([3]), np.array([0.4], "float32"), np.array([0.0], "float32")]
    args = [corners, numbers((1, 2, 5), seed=2), *limits]
    yield Case(all_class_nms.AllClassNonMaxSuppression(), args, loops=False)
    rows = all_class_nms.AllClassNonMaxSuppression(output_format="tensorflow")
    yield Case(rows, args, note="tensorflow")
    for kind, tolerance in (("float32", 0), ("float16", 0)):
        yield Case(boxes.GetValidCounts(0.25), [numbers((2, 5, 6), kind)], tolerance)
    for kind, tolerance in (("float32", 1e-5), ("float16", 4e-3)):
        args_ = [numbers(s, kind, seed=i) for i, s in enumerate([(2, 3, 4), (2, 16), (1, 4, 4)])]
        yield Case(boxes.MultiboxTransformLoc(True, 0.3), args_, tolerance)
    yield Case(nms.NonMaxSuppression(), args, loops=False)
    yield Case(nms.NonMaxSuppression(center_point_box=True), args, loops=False, note="center")


def _regions():
    rois = np.array([[0, 0, 3, 3], [1, 0.5, 2.5, 4]], "float32")
    args = [numbers((2, 2, 4, 5)), rois, np.array([1, 0])]
    for mode in ("avg", "max"):
        for aligned in (False, True):
            for ratio in (0, 2):
                how = {"mode": mode, "aligned": aligned, "sample_ratio": ratio}
                made = roi_align.RoiAlign((2, 3), **how)
                note = f"{mode}-{aligned}-{ratio}"
                yield Case(made, args, 1e-5, loops=ratio > 0 or mode == "avg", note=note)
    made = roi_align.RoiAlign((2, 3), sample_ratio=2)
    yield Case(made, [a.astype("float16") for a in args[:2]] + args[2:], 4e-3, note="half")
    rows = np.array([[1, 0, 0, 3, 3], [0, -2, 1, 9, 2], [1, 8, 8, 9, 9]], "float32")
    for kind in ("float32", "float16"):
        pair = [a.astype(kind) for a in (args[0], rows)]
        yield Case(roi_pool.RoiPool((2, 3), 0.5), pair)
    for shape in ((2, 2), (3, 4, 4), (0, 2, 2), (2, 0, 0), (2, 1, 1)):
        yield Case(determinant.Det(), [numbers(shape)], 1e-5)
    swapped = np.array([[0, 2, 1], [3, 0, 1], [0, 4, 0]], "float32")
    yield Case(determinant.Det(), [np.stack([swapped, swapped * 0, swapped[:, [0, 0, 1]]])], 1e-5)


def _equations():
    a = numbers((2, 3, 3)) + 3 * np.eye(3, dtype="float32")
    yield Case(solve.Solve(), [a, numbers((2, 3, 4), seed=2)], 1e-5, loops=False)
    yield Case(solve.Cholesky(), [a @ a.swapaxes(1, 2)], 1e-5, loops=False)
    yield Case(solve.Slogdet(), [-a], 1e-5, loops=False)


CASES = [case for family in (_layers, _boxes, _regions, _equations) for case in family()]
