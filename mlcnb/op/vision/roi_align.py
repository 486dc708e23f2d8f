"""Regions of an image, brought to one size: vision.roi_align.

Each bin of a region is the mean, or the largest, of samples between pixels. Where `sample_ratio`
says how many there are, they are loops. Else a region does, with at least one for each pixel; their
mean is then one of pixels, whose weights are products of one for the row and one for the column:

for b in bins down, bins along: down[b, y], along[b, x] += …      the weights of a region
for c, b: sums[x] = down[b, y] * image[c, y, x] over y            rows as vectors
    for q: out[c, b, q] = along[q, x] * sums[x] over x

The largest of so many samples the virtual machine finds by the meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Var
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, nest, scratch, seq, store, with_scratch
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.index_check import checked
from mlcnb.tir.stmt import Evaluate, IfThenElse, Stmt

INT64 = dtype("int64")
#: what an image without pixels lacks
_FIRST = "vision.roi_align: the first element"


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
        shape = [rois.shape[0], x.shape[1], *self.pooled_size]
        if count < 1 and self.mode == "max":
            raise UnsupportedOpError("vision.roi_align: a region says how many samples a bin has")
        if count < 1:
            tensors = [x, rois, batch_indices]
            return te.extern(shape, tensors, self.loops, "roi_align", str(x.dtype))
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

    def loops(self, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        """Region by region: the weights of its rows and columns, then the sums of each channel."""
        (x, rois, batch_indices), (out,) = ins, outs
        kind = accumulator(x.dtype)
        sides = [
            _Side(name, bins, size, kind)
            for name, bins, size in zip(
                ("down", "along"), self.pooled_size, x.shape[2:], strict=True
            )
        ]
        down, along = sides
        sums, total = scratch("sums", kind, x.shape[3]), scratch("total", kind)

        def bin_of(n: Var, c: Var, b: Var, q: Var) -> Stmt:
            def add(k: Any) -> Stmt:
                return hold(total, held(total) + load(along.weights, q, k) * load(sums, k))

            mean = p.cast(x.dtype, held(total) * (held(down.part) * held(along.part)))
            return seq(hold(total, 0), along.each(q, add), store(out, [n, c, b, q], mean))

        def row_of_bins(n: Var, sample: Var, c: Var, b: Var) -> Stmt:
            def add(y: Any) -> Stmt:
                def one(k: Any) -> Stmt:
                    pixel = p.cast(kind, load(x, sample, c, y, k))
                    return store(sums, [k], load(sums, k) + load(down.weights, b, y) * pixel)

                return along.all(one)

            return seq(
                along.all(lambda k: store(sums, [k], 0)),
                down.each(b, add),
                loop("q", along.bins, lambda q: bin_of(n, c, b, q), INT64),
            )

        def region(n: Var) -> Stmt:
            corners = [p.cast(kind, load(rois, n, i)) * self.spatial_scale for i in range(4)]
            shift = 0.5 if self.aligned else 0.0
            weights = [
                side.weigh(corners[1 - axis] - shift, corners[3 - axis] - shift, self.aligned)
                for axis, side in enumerate(sides)
            ]
            given = p.cast("int64", load(batch_indices, n))
            index = checked(given, x.shape[0], "vision.roi_align: batch_indices")
            bins = let(
                lambda sample: nest(
                    [x.shape[1], down.bins], lambda c, b: row_of_bins(n, sample, c, b), INT64
                ),
                sample=index,
            )
            return seq(*(side.some() for side in sides), *weights, bins)

        held_here = [*down.buffers, *along.buffers, sums, total]
        return with_scratch(held_here, loop("n", out.shape[0], region, INT64), name="roi_align")

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
        first = checked(p.const(0, "int64"), size, _FIRST)
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


class _Side:
    """The weights of the pixels along one side of a region, for each of its bins.

    Attributes:
        weights: (bins, size)
        first, end: between which pixels those of a bin lie that are not 0.
        ends: the same of all bins.
        start, step, count: where the first bin begins, how long one is, how many samples it has.
        part: one through that, 0 if there are none.
    """

    def __init__(self, name: str, bins: int, size: Any, kind: DType) -> None:
        self.name, self.bins, self.size, self.kind = name, bins, size, kind
        self.weights = scratch(name, kind, bins, size)
        self.first, self.end = (scratch(f"{name}_{n}", INT64, bins) for n in ("first", "end"))
        self.ends, self.part = scratch(f"{name}_ends", INT64, 2), scratch(f"{name}_part", kind)
        names = ("start", "step", "count")
        self.start, self.step, self.count = (scratch(f"{name}_{n}", kind) for n in names)
        self.buffers = [
            self.weights, self.first, self.end, self.ends, self.part,
            self.start, self.step, self.count,
        ]  # fmt: skip

    def some(self) -> Stmt:
        """An error for an image that has no pixels."""
        return Evaluate(checked(p.const(0, "int64"), self.size, _FIRST))

    def each(self, b: Any, act: Callable[[Any], Stmt]) -> Stmt:
        """act(k) for each pixel of bin b."""
        first = load(self.first, b)
        return loop("k", load(self.end, b) - first, lambda k: act(first + k), INT64)

    def all(self, act: Callable[[Any], Stmt]) -> Stmt:
        """act(k) for each pixel of the region."""
        first = load(self.ends, 0)
        return loop("k", load(self.ends, 1) - first, lambda k: act(first + k), INT64)

    def weigh(self, low: Any, high: Any, aligned: bool) -> Stmt:
        """The weights, from where the region begins and ends.

        Samples more than a pixel outside of the image count, but are 0, and are passed over.
        """
        length = high - low if aligned else p.maximum(high - low, 1.0)
        start, step, count = self.start, self.step, self.count
        known = p.greater(held(count), 0.0)
        size = p.cast(self.kind, self.size)

        def weighed(b: Var) -> Stmt:
            apart, bin_ = held(step) / held(count), p.cast(self.kind, b)
            place = held(start) + bin_ * held(step)
            begin = p.maximum(te.floor((-1.0 - place) / apart) - 1.0, 0.0)
            end = p.minimum(te.ceil((size - place) / apart) + 1.0, held(count))

            def one(begin: Var, k: Var) -> Stmt:
                share = (p.cast(self.kind, begin + k) + 0.5) / held(count)
                return self.add(b, held(start) + (bin_ + share) * held(step))

            return let(
                lambda begin, end: loop("k", end - begin, lambda k: one(begin, k), INT64),
                begin=p.cast("int64", begin),
                end=p.cast("int64", end),
            )

        def cleared(b: Var) -> Stmt:
            return seq(
                store(self.first, [b], self.size),
                store(self.end, [b], 0),
                loop("k", self.size, lambda k: store(self.weights, [b, k], 0), INT64),
            )

        return seq(
            hold(start, low),
            hold(step, length / float(self.bins)),
            hold(count, p.maximum(te.ceil(held(step)), 0.0)),
            hold(self.part, te.Select(known, 1.0 / p.maximum(held(count), 1.0), held(count))),
            store(self.ends, [0], self.size),
            store(self.ends, [1], 0),
            loop("b", self.bins, lambda b: seq(cleared(b), IfThenElse(known, weighed(b))), INT64),
            loop("b", self.bins, self.settled, INT64),
        )

    def add(self, b: Var, at: Any) -> Stmt:
        """The two pixels of a sample get its weights, if the image has them."""
        last = p.cast(self.kind, self.size - 1)
        inside = p.logical_and(at >= -1.0, at <= p.cast(self.kind, self.size))

        def shared(place: Var, low: Var) -> Stmt:
            part, high = place - p.cast(self.kind, low), p.minimum(low + 1, self.size - 1)
            more = ((low, 1.0 - part), (high, part))
            return seq(
                *(store(self.weights, [b, k], load(self.weights, b, k) + w) for k, w in more),
                store(self.first, [b], p.minimum(load(self.first, b), low)),
                store(self.end, [b], p.maximum(load(self.end, b), high + 1)),
            )

        held_in = p.minimum(p.maximum(at, 0.0), last)
        return let(
            lambda place: IfThenElse(
                inside,
                let(lambda low: shared(place, low), low=p.cast("int64", te.floor(place))),
            ),
            place=held_in,
        )

    def settled(self, b: Var) -> Stmt:
        """A bin without pixels has none from its beginning on; all bins' ends."""
        first = p.minimum(load(self.first, b), load(self.end, b))
        return seq(
            store(self.first, [b], first),
            IfThenElse(
                p.greater(load(self.end, b), first),
                seq(
                    store(self.ends, [0], p.minimum(load(self.ends, 0), first)),
                    store(self.ends, [1], p.maximum(load(self.ends, 1), load(self.end, b))),
                ),
            ),
        )


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
