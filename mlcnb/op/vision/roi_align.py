"""Regions of an image, brought to one size: vision.roi_align.

Each bin of a region is the mean, or the largest, of samples between pixels. How many samples a bin
has may depend on the region, so there are no loops: the virtual machine calls the meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.op._accumulate import wide
from mlcnb.op._dims import refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.vision.roi_align")
class RoiAlign(OpDecl):
    """x (samples, channels, height, width) in regions: (n, channels, *pooled_size).

    rois (n, 4): x1, y1, x2, y2 in units of 1 / spatial_scale pixels; batch_indices (n): of which
    sample. sample_ratio: samples along each side of a bin, 0: as many as it has pixels. mode: avg,
    or max (of the parts that make up the samples). aligned: pixels lie half a pixel inside.
    Semantics: https://onnx.ai/onnx/operators/onnx__RoiAlign.html
    """

    x: Tensor
    rois: Tensor
    batch_indices: Tensor
    pooled_size: tuple[int, int] = (1, 1)
    spatial_scale: float = 1.0
    sample_ratio: int = 0
    mode: str = "avg"
    aligned: bool = True

    def infer(self, x: Any, rois: Any, batch_indices: Any) -> Any:
        """(n, channels, *pooled_size)"""
        want_kinds(self, FLOATS, x=x)
        want_same_dtype(self, x=x, rois=rois)
        want_rank(self, "x", x, 4)
        want_rank(self, "rois", rois, 2)
        if batch_indices.dtype and not batch_indices.dtype.is_integer:
            refuse(self, f"batch_indices must hold integers, but is {tell(batch_indices)}")
        if self.mode not in ("avg", "max"):
            refuse(self, f"no mode {self.mode!r}", hint="avg or max")
        if x.dims is None or rois.dims is None:
            return tensor(None, x.dtype, 4)
        return tensor([rois.dims[0], x.dims[1], *self.pooled_size], x.dtype)

    def numpy(self, x: Any, rois: Any, batch_indices: Any) -> Any:
        """Region by region"""
        image, boxes = wide(x), wide(rois) * self.spatial_scale - (0.5 if self.aligned else 0)
        made = np.zeros((len(boxes), x.shape[1], *self.pooled_size), image.dtype)
        for row, (box, sample) in enumerate(zip(boxes, batch_indices, strict=True)):
            if not 0 <= sample < len(x):
                refuse(self, f"batch_indices[{row}] is {sample}, outside of 0 to {len(x) - 1}")
            made[row] = self.region(image[sample], box)
        return made.astype(x.dtype)

    def region(self, image: np.ndarray, box: np.ndarray) -> np.ndarray:
        """The bins of one region."""
        x1, y1, x2, y2 = box
        down = self.places(y1, y2 - y1, self.pooled_size[0], image.shape[1])
        along = self.places(x1, x2 - x1, self.pooled_size[1], image.shape[2])
        pooled = np.zeros((len(image), *self.pooled_size), image.dtype)
        if not down[0].size or not along[0].size:
            return pooled
        parts = [
            image[:, y[:, :, None, None], x[None, None]] * (wy[:, :, None, None] * wx[None, None])
            for y, wy in zip(down[:2], down[2:], strict=True)
            for x, wx in zip(along[:2], along[2:], strict=True)
        ]
        if self.mode == "max":
            return np.max(np.max(parts, axis=0), axis=(2, 4))
        return np.mean(np.sum(parts, axis=0), axis=(2, 4))

    def places(self, start: Any, length: Any, bins: int, size: int) -> list[np.ndarray]:
        """Of the samples of each bin along one side: the pixels before and after, their weights."""
        length = length if self.aligned else max(length, 1)
        count = self.sample_ratio or max(int(np.ceil(length / bins)), 0)
        step = (np.arange(count) + 0.5) / max(count, 1)
        at = start + (np.arange(bins)[:, None] + step) * (length / bins)
        seen = (at >= -1) & (at <= size)
        at = np.clip(at, 0, size - 1)
        low = np.floor(at).astype(np.int64)
        part = at - low
        return [low, np.minimum(low + 1, size - 1), (1 - part) * seen, part * seen]


@onnx("RoiAlign", since=10)
def onnx_roi_align(n: OnnxNode, x: Expr, rois: Expr, batch_indices: Expr) -> Expr:
    """Half a pixel inside from opset 16 on, unless told otherwise."""
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    return make_call(
        RoiAlign,
        x,
        rois,
        batch_indices,
        pooled_size=(n.attr("output_height", 1), n.attr("output_width", 1)),
        spatial_scale=n.attr("spatial_scale", 1.0),
        sample_ratio=n.attr("sampling_ratio", 0),
        mode=n.attr("mode", "avg"),
        aligned=n.attr("coordinate_transformation_mode", default) == "half_pixel",
    )
