"""Regions of an image, brought to one size by their largest pixels: vision.roi_pool.

A region is rounded to whole pixels and cut into bins, which may overlap by one; a bin that lies
outside of the image is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import refuse, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, nest, scratch, seq, store, with_scratch
from mlcnb.op.nn._window import each, settle
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.index_check import checked
from mlcnb.tir.stmt import IfThenElse, Stmt

INT64 = dtype("int64")
#: larger than any image; what is rounded stays an integer
FAR = 2.0**31


@operator("relax.vision.roi_pool")
class RoiPool(OpDecl):
    """data (samples, channels, height, width) in regions: (n, channels, *pooled_size).

    rois (n, 5): of which sample, then x1, y1, x2, y2, corners that belong to the region, in units
    of 1 / spatial_scale pixels. Halves are rounded up.
    Semantics: https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
    """

    data: Tensor
    rois: Tensor
    pooled_size: Any = (1, 1)
    spatial_scale: float = 1.0
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        settle(self, pooled_size=each(self.pooled_size, 2))

    def infer(self, data: Any, rois: Any) -> Any:
        """(n, channels, *pooled_size)"""
        want_kinds(self, FLOATS, data=data)
        want_same_dtype(self, data=data, rois=rois)
        want_rank(self, "data", data, 4)
        want_rank(self, "rois", rois, 2)
        if self.layout != "NCHW":
            refuse(self, f"no layout {self.layout!r}", hint='permute_dims to "NCHW" first')
        if rois.dims is not None and p.as_int(rois.dims[1]) not in (5, None):
            refuse(self, f"a row of rois has 5 numbers, not {rois.dims[1]}")
        if data.dims is None or rois.dims is None:
            return tensor(None, data.dtype, 4)
        return tensor([rois.dims[0], data.dims[1], *self.pooled_size], data.dtype)

    def numpy(self, data: Any, rois: Any) -> Any:
        """Region by region, bin by bin"""
        made = np.zeros((len(rois), data.shape[1], *self.pooled_size), data.dtype)
        kind, scale = accumulator(data.dtype.name).numpy.type, self.spatial_scale
        for row, (sample, *corners) in enumerate(wide(rois)):
            if not 0 <= int(sample) < len(data):
                refuse(self, f"rois[{row}, 0] is {sample}, outside of 0 to {len(data) - 1}")
            x1, y1, x2, y2 = (_rounded(kind(c * kind(scale))) for c in corners)
            down = self.bins(y1, y2, self.pooled_size[0], data.shape[2], kind)
            along = self.bins(x1, x2, self.pooled_size[1], data.shape[3], kind)
            for i, rows in enumerate(down):
                for j, columns in enumerate(along):
                    part = data[int(sample), :, rows, columns]
                    if part.size:
                        made[row, :, i, j] = part.max(axis=(1, 2))
        return made

    def bins(self, first: int, last: int, count: int, size: int, kind: Any) -> list[slice]:
        """The pixels of each bin along one side."""
        step = kind(max(last - first + 1, 1)) / kind(count)
        starts = [int(np.floor(kind(i) * step)) + first for i in range(count)]
        ends = [int(np.ceil(kind(i + 1) * step)) + first for i in range(count)]
        cut = [
            (min(max(s, 0), size), min(max(e, 0), size)) for s, e in zip(starts, ends, strict=True)
        ]
        return [slice(s, e) for s, e in cut]

    def compute(self, data: Any, rois: Any) -> Any:
        """The largest pixel of a bin, or 0"""
        shape = [rois.shape[0], data.shape[1], *self.pooled_size]
        return te.extern(shape, [data, rois], self.loops, "roi_pool", str(data.dtype))

    def loops(self, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        """Bin by bin: the pixels between its ends."""
        (data, rois), (out,) = ins, outs
        best = scratch("best", data.dtype)
        lowest = p.const(-math.inf, data.dtype)

        def pooled(n: Var, c: Var, i: Var, j: Var) -> Stmt:
            sides = [
                self.side(rois, n, axis, at, self.pooled_size[axis], data.shape[2 + axis])
                for axis, at in enumerate((i, j))
            ]
            (y1, y2), (x1, x2) = sides
            sample = checked(
                p.cast("int64", load(rois, n, 0)), data.shape[0], "vision.roi_pool: rois"
            )
            return let(
                lambda sample, y, rows, x, columns: seq(
                    hold(best, lowest),
                    loop("h", rows, lambda h: loop(
                        "w", columns, lambda w: larger(load(data, sample, c, y + h, x + w)), INT64
                    ), INT64),
                    store(out, [n, c, i, j], 0),
                    IfThenElse(
                        p.logical_and(p.greater(rows, 0), p.greater(columns, 0)),
                        store(out, [n, c, i, j], held(best)),
                    ),
                ),
                sample=sample, y=y1, rows=y2 - y1, x=x1, columns=x2 - x1,
            )  # fmt: skip

        def larger(value: PrimExpr) -> Stmt:
            return hold(best, p.maximum(held(best), value))

        return with_scratch([best], nest(out.shape, pooled, INT64), name="roi_pool")

    def side(self, rois: Buffer, n: Var, axis: int, at: Var, bins: int, size: Any) -> tuple:
        """Where bin `at` of region n begins and ends along an axis."""
        kind = accumulator(rois.dtype)
        scale = p.const(self.spatial_scale, kind)
        first, last = (
            _whole(te.floor(p.cast(kind, load(rois, n, corner)) * scale + 0.5))
            for corner in (2 - axis, 4 - axis)
        )
        step = p.cast(kind, p.maximum(last - first + 1, 1)) / p.const(float(bins), kind)
        begin = first + _whole(te.floor(p.cast(kind, at) * step))
        end = first + _whole(te.ceil(p.cast(kind, at + 1) * step))
        size = p.cast("int64", size)
        begin, end = (p.minimum(p.maximum(v, 0), size) for v in (begin, end))
        return begin, p.maximum(end, begin)


def _rounded(x: Any) -> int:
    return int(np.floor(min(max(x + 0.5, -FAR), FAR))) if x == x else 0


def _whole(x: PrimExpr) -> PrimExpr:
    """A float as an integer: what is far away stays there, NaN is 0."""
    far = p.const(FAR, x.dtype)
    near = p.minimum(p.maximum(x, -far), far)
    return p.cast("int64", p.select(te.isnan(x), p.const(0, x.dtype), near))


@onnx("MaxRoiPool")
def onnx_max_roi_pool(n: OnnxNode, x: Expr, rois: Expr) -> Expr:
    """pooled_shape and spatial_scale"""
    return make_call(
        RoiPool,
        x,
        rois,
        pooled_size=tuple(n.attr("pooled_shape")),
        spatial_scale=n.attr("spatial_scale", 1.0),
    )
