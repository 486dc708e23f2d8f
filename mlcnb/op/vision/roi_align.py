"""Regions of an image, brought to one size: vision.roi_align.

Each bin of a region is the mean, or the largest, of samples between pixels. Where `sample_ratio`
says how many there are, they are loops; else a region does, and the virtual machine calls the
meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.index_check import checked


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
            if 0 in x.shape[2:]:
                refuse(self, f"images of {x.shape[2]} x {x.shape[3]} have no elements to sample")
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

    def compute(self, x: Any, rois: Any, batch_indices: Any) -> Any:
        """A mean or maximum over the samples of a bin"""
        count, kind = self.sample_ratio, accumulator(x.dtype)
        if count < 1:
            raise UnsupportedOpError("vision.roi_align: a region says how many samples a bin has")
        shape = [rois.shape[0], x.shape[1], *self.pooled_size]
        down, along = (te.reduce_axis((0, count), name=n) for n in ("down", "along"))
        number = 1.0 / (count * count) if self.mode == "avg" else 1.0
        bins = zip((down, along), self.pooled_size, x.shape[2:], strict=True)
        sides = [(axis, *rest) for axis, rest in enumerate(bins)]

        def pooled(n: Any, c: Any, *place: Any) -> Any:
            sample = checked(batch_indices(n), x.shape[0], "vision.roi_align: batch_indices")
            corners = [p.cast(kind, rois(n, i)) * self.spatial_scale for i in range(4)]
            found = [
                self.sample(corners[1 - axis], corners[3 - axis], place[axis], step, parts, size)
                for axis, step, parts, size in sides
            ]
            parts = [
                p.cast(kind, x(sample, c, y, z)) * (wy * wz)
                for y, wy in zip(found[0][:2], found[0][2:], strict=True)
                for z, wz in zip(found[1][:2], found[1][2:], strict=True)
            ]
            if self.mode == "max":
                whole = p.maximum(p.maximum(parts[0], parts[1]), p.maximum(parts[2], parts[3]))
                return te.max(whole, axis=[down, along])
            return te.sum(parts[0] + parts[1] + parts[2] + parts[3], axis=[down, along])

        total = te.compute(shape, pooled, name="roi_align")
        if number == 1.0 and total.dtype == x.dtype:
            return total
        return te.compute(shape, lambda *i: p.cast(x.dtype, total(*i) * number), name="roi_mean")

    def sample(self, low: Any, high: Any, place: Any, step: Any, bins: int, size: Any) -> tuple:
        """As `places`, of one sample: the pixels before and after, their weights."""
        shift = 0.5 if self.aligned else 0.0
        length = high - low if self.aligned else p.maximum(high - low, 1.0)
        kind = length.dtype
        part = (p.cast(kind, step) + 0.5) / float(self.sample_ratio)
        at = low - shift + (p.cast(kind, place) + part) * (length / float(bins))
        last = p.cast(kind, size - 1)
        seen = p.cast(kind, p.logical_and(at >= -1.0, at <= p.cast(kind, size)))
        at = p.minimum(p.maximum(at, 0.0), last)
        before = te.floor(at)
        first = checked(p.const(0, "int64"), size, "vision.roi_align: the first element")
        index = p.maximum(p.cast("int64", before), first)
        after = p.minimum(index + 1, p.cast("int64", size - 1))
        return index, after, (1.0 - (at - before)) * seen, (at - before) * seen

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
