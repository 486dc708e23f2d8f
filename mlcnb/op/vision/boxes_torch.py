"""Operators of torchvision on boxes and regions, as PyTorch's graphs name them.

nms              the rows of vision.non_max_suppression for one class
roi_align        vision.roi_align      regions are rows (sample, x1, y1, x2, y2)
roi_pool         vision.roi_pool
deform_conv2d    ONNX's DeformConv

https://github.com/pytorch/vision/tree/main/torchvision/csrc/ops
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.op._torch import Formula, call, cut
from mlcnb.op.nn.conv_onnx import onnx_deform_conv
from mlcnb.op.torch import TorchNode, as_onnx, torch_spelling
from mlcnb.relax.expr import Expr, const


@torch_spelling("torchvision.nms")
def torch_nms(n: TorchNode, dets: Expr, scores: Expr, iou_threshold: float) -> Expr:
    """Which boxes (x1, y1, x2, y2) are kept, best first.

    A box whose corners are swapped shares nothing: it gets no area. Boxes are put in order first,
    with equal scores, so that those that are NaN or infinite count as they do in PyTorch.
    """
    if iou_threshold < 0:
        n.refuse(f"boxes may share {iou_threshold} of their union", hint="0 to 1")
    f, kind = Formula(n), n.dtype(dets)
    count = n.dims(dets)[0]
    low, high = (n.emit(cut(dets, 1, i, i + 2)) for i in (0, 2))
    sound = f.expand_dims(f.concat([low, f.maximum(low, high)], axis=1), axis=(0,))
    order = f.argsort(scores, axis=0, descending=True, dtype="int64")
    best = f.take(sound, order, axis=1, mode="fast")
    equal = n.emit(call("relax.zeros", (1, 1, count), dtype=kind))
    limits = (
        n.tensor(count, "int64"),
        const(_at_most(iou_threshold, kind), kind),
        const(-np.inf, kind),
    )
    rows = f.emit("relax.vision.non_max_suppression", best, equal, *limits)
    kept = f.reshape(cut(rows, 1, 2, 3), [-1])
    return call("relax.take", order, kept, axis=0, mode="fast")


def _at_most(value: float, kind: str) -> Any:
    """The largest number of a dtype that is no larger: what is above it is above the value."""
    near = np.array(value, kind)
    return np.nextafter(near, np.array(-np.inf, kind)) if float(near) > value else near


@torch_spelling("torchvision.roi_align")
def torch_roi_align(
    n: TorchNode,
    x: Expr,
    rois: Expr,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Expr:
    """A number of samples below 1 is none: regions say how many."""
    f = Formula(n)
    return call(
        "relax.vision.roi_align",
        x,
        n.emit(cut(rois, 1, 1, 5)),
        f.astype(f.reshape(cut(rois, 1, 0, 1), [-1]), dtype="int64"),
        pooled_size=(pooled_height, pooled_width),
        spatial_scale=spatial_scale,
        sample_ratio=max(sampling_ratio, 0),
        aligned=aligned,
    )


@torch_spelling("torchvision.roi_pool")
def torch_roi_pool(
    n: TorchNode,
    x: Expr,
    rois: Expr,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> Any:
    """Halves are rounded away from 0: corners are whole before they are given on."""
    f = Formula(n, n.dtype(rois))
    scaled = f.multiply(cut(rois, 1, 1, 5), spatial_scale)
    whole = f.trunc(scaled)
    is_half = f.greater_equal(f.abs(f.subtract(scaled, whole)), 0.5)
    step = f.multiply(f.sign(scaled), f.astype(is_half, dtype=n.dtype(rois)))
    given = f.concat([n.emit(cut(rois, 1, 0, 1)), f.add(whole, step)], axis=1)
    size = (pooled_height, pooled_width)
    return call("relax.vision.roi_pool", x, given, pooled_size=size), None


@torch_spelling("torchvision.deform_conv2d")
def torch_deform_conv2d(
    n: TorchNode,
    x: Expr,
    weight: Expr,
    offset: Expr,
    mask: Expr,
    bias: Expr,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Expr:
    """Without a mask there is an empty one."""
    window = as_onnx(
        n,
        strides=(stride_h, stride_w),
        pads=(pad_h, pad_w) * 2,
        dilations=(dilation_h, dilation_w),
        group=groups,
        offset_group=offset_groups,
    )
    return onnx_deform_conv(window, x, weight, offset, bias, mask if use_mask else None)
