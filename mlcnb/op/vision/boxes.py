"""Boxes before they are compared: vision.get_valid_counts, vision.multibox_transform_loc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import differ, refuse, tell, tell_dims, tensor, tidy, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, nest, scratch, seq, store, with_scratch
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt

INT64 = dtype("int64")


@operator("relax.vision.get_valid_counts")
class GetValidCounts(OpDecl):
    """How many boxes of each sample are good enough, these in front, and where they were.

    data (samples, n, elements): one box a row. Good ones have more than score_threshold at
    score_index, and a class of 0 or more at id_index, where that is not -1. The result is
    (samples,) int32, a tensor like data and (samples, n) int32, filled with -1 behind the good.
    Semantics: https://tvm.apache.org/docs/reference/api/python/relax/op.html
    """

    data: Tensor
    score_threshold: float = 0.0
    id_index: int = 0
    score_index: int = 1

    def infer(self, data: Any) -> Any:
        """(samples,), like data, (samples, n)"""
        want_kinds(self, FLOATS, data=data)
        want_rank(self, "data", data, 3)
        if data.dims is None:
            unknown = (tensor(None, k, r) for k, r in (("int32", 1), (data.dtype, 3), ("int32", 2)))
            return TupleStructInfo(tuple(unknown))
        elements = p.as_int(data.dims[2])
        least = {"id_index": -1, "score_index": 0}
        for name, value in (("id_index", self.id_index), ("score_index", self.score_index)):
            if value < least[name] or (elements is not None and value >= elements):
                refuse(
                    self, f"{name} is {value}, but a box of {tell(data)} has {elements} elements"
                )
        samples, n, _ = data.dims
        return TupleStructInfo((
            tensor([samples], "int32"), tensor(data.dims, data.dtype), tensor([samples, n], "int32")
        ))  # fmt: skip

    def numpy(self, data: Any) -> Any:
        """Sample by sample"""
        good = data[..., self.score_index] > np.asarray(self.score_threshold, data.dtype)
        if self.id_index >= 0:
            good &= data[..., self.id_index] >= 0
        front, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
        for sample, rows in enumerate(good):
            found = np.flatnonzero(rows)
            front[sample, : len(found)] = data[sample, found]
            places[sample, : len(found)] = found
        return good.sum(axis=1).astype(np.int32), front, places

    def compute(self, data: Any) -> Any:
        """One walk over the boxes of a sample"""
        samples, n, _ = data.shape
        shapes, kinds = [(samples,), data.shape, (samples, n)], ["int32", str(data.dtype), "int32"]
        return tuple(te.extern(shapes, [data], self.loops, "get_valid_counts", kinds))

    def loops(self, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        """Good boxes go to the next place, those behind are -1."""
        (data,), (counts, front, places) = ins, outs
        samples, n, elements = data.shape
        at = scratch("at", INT64)

        def look(b: Var, i: Var) -> Stmt:
            least = p.const(self.score_threshold, data.dtype)
            good = p.greater(load(data, b, i, self.score_index), least)
            if self.id_index >= 0:
                is_some = p.greater_equal(load(data, b, i, self.id_index), p.const(0, data.dtype))
                good = p.logical_and(good, is_some)
            return IfThenElse(good, let(lambda to: take(b, i, to), to=held(at)))

        def take(b: Var, i: Var, to: Var) -> Stmt:
            return seq(
                loop("e", elements, lambda e: store(front, [b, to, e], load(data, b, i, e)), INT64),
                store(places, [b, to], i),
                hold(at, to + 1),
            )

        def clear(b: Var, i: Var) -> Stmt:
            return seq(
                loop("e", elements, lambda e: store(front, [b, i, e], -1), INT64),
                store(places, [b, i], -1),
            )

        def sample(b: Var) -> Stmt:
            return seq(
                loop("i", n, lambda i: clear(b, i), INT64),
                hold(at, 0),
                loop("i", n, lambda i: look(b, i), INT64),
                store(counts, [b], held(at)),
            )

        return with_scratch([at], nest([samples], sample, INT64), name="valid_counts")


@operator("relax.vision.multibox_transform_loc")
class MultiboxTransformLoc(OpDecl):
    """Boxes (samples, n, 4) out of anchors and what a model says of them, and their scores.

    cls_pred (samples, classes, n); loc_pred (samples, 4 n): of each anchor x, y, width, height, in
    units of `variances` and of the anchor; anchor (1, n, 4): left, top, right, bottom. Boxes are
    ymin, xmin, ymax, xmax, with clip between 0 and 1. Scores are a softmax over the classes (with
    apply_softmax), 0 below threshold, and 0 of class 0 without keep_background.
    Semantics: https://tvm.apache.org/docs/reference/api/python/relax/op.html
    """

    cls_pred: Tensor
    loc_pred: Tensor
    anchor: Tensor
    clip: bool = False
    threshold: float = 0.0
    variances: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    keep_background: bool = True
    apply_softmax: bool = True

    def infer(self, cls_pred: Any, loc_pred: Any, anchor: Any) -> Any:
        """(samples, n, 4), (samples, classes, n)"""
        want_kinds(self, FLOATS, cls_pred=cls_pred)
        want_same_dtype(self, cls_pred=cls_pred, loc_pred=loc_pred, anchor=anchor)
        for name, info, rank in (
            ("cls_pred", cls_pred, 3),
            ("loc_pred", loc_pred, 2),
            ("anchor", anchor, 3),
        ):
            want_rank(self, name, info, rank)
        if cls_pred.dims is None:
            kind = cls_pred.dtype
            return TupleStructInfo((tensor(None, kind, 3), tensor(None, kind, 3)))
        samples, _, n = cls_pred.dims
        for name, info, wanted in (
            ("loc_pred", loc_pred, [samples, tidy(n * 4)]),
            ("anchor", anchor, [1, n, 4]),
        ):
            if info.dims is not None and any(map(differ, info.dims, wanted)):
                refuse(self, f"{name} must be of shape {tell_dims(wanted)}, but is {tell(info)}")
        return TupleStructInfo((
            tensor([samples, n, 4], cls_pred.dtype), tensor(cls_pred.dims, cls_pred.dtype)
        ))  # fmt: skip

    def numpy(self, cls_pred: Any, loc_pred: Any, anchor: Any) -> Any:
        """All anchors at once"""
        samples, _, n = cls_pred.shape
        scale = np.asarray(self.variances, accumulator(cls_pred.dtype.name).numpy)
        x, y, w, h = np.moveaxis(wide(loc_pred).reshape(samples, n, 4) * scale, -1, 0)
        left, top, right, bottom = np.moveaxis(wide(anchor)[0], -1, 0)
        middle_y = y * (bottom - top) + (top + bottom) / 2
        middle_x = x * (right - left) + (left + right) / 2
        half_y, half_x = np.exp(h) * (bottom - top) / 2, np.exp(w) * (right - left) / 2
        sides = (middle_y - half_y, middle_x - half_x, middle_y + half_y, middle_x + half_x)
        boxes = np.stack(sides, axis=-1)
        scores = wide(cls_pred)
        if self.apply_softmax:
            high = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
            scores = high / high.sum(axis=1, keepdims=True)
        scores = np.where(scores >= self.threshold, scores, 0)
        if not self.keep_background:
            scores[:, :1] = 0
        boxes = np.clip(boxes, 0, 1) if self.clip else boxes
        return boxes.astype(cls_pred.dtype), scores.astype(cls_pred.dtype)

    def compute(self, cls_pred: Any, loc_pred: Any, anchor: Any) -> Any:
        """The boxes; a softmax, then its scores"""
        kind = accumulator(cls_pred.dtype)
        samples, classes, n = cls_pred.shape

        def side(b: Any, a: Any, k: Any) -> Any:
            low, high = (p.cast(kind, anchor(0, a, at)) for at in ((k + 1) % 2, (k + 1) % 2 + 2))
            axis = (k + 1) % 2  # 0: along x, 1: down
            shift, stretch = (p.cast(kind, loc_pred(b, a * 4 + axis + at)) for at in (0, 2))
            vx, vy, vw, vh = (p.const(v, kind) for v in self.variances)
            middle = shift * p.select(axis > 0, vy, vx) * (high - low) + (low + high) * 0.5
            half = te.exp(stretch * p.select(axis > 0, vh, vw)) * (high - low) * 0.5
            found = middle + p.select(k > 1, half, -half)
            found = p.minimum(p.maximum(found, 0.0), 1.0) if self.clip else found
            return p.cast(cls_pred.dtype, found)

        boxes = te.compute((samples, n, 4), side, name="boxes")
        found = self.softmax(cls_pred, kind) if self.apply_softmax else cls_pred

        def score(b: Any, c: Any, a: Any) -> Any:
            value = p.cast(kind, found(b, c, a))
            zero = p.const(0, kind)
            value = p.select(value >= p.const(self.threshold, kind), value, zero)
            value = value if self.keep_background else p.select(c > 0, value, zero)
            return p.cast(cls_pred.dtype, value)

        return boxes, te.compute((samples, classes, n), score, name="scores")

    def softmax(self, x: Any, kind: Any) -> Any:
        """Over the classes."""
        samples, classes, n = x.shape
        axes = [te.reduce_axis((0, classes), name="k") for _ in range(2)]
        high = te.compute(
            (samples, n), lambda b, a: te.max(x(b, axes[0], a), axis=axes[0]), name="high"
        )
        powers = te.compute(
            x.shape,
            lambda b, c, a: te.exp(p.cast(kind, x(b, c, a)) - p.cast(kind, high(b, a))),
            name="powers",
        )
        total = te.compute(
            (samples, n), lambda b, a: te.sum(powers(b, axes[1], a), axis=axes[1]), name="total"
        )
        return te.compute(x.shape, lambda b, c, a: powers(b, c, a) / total(b, a), name="softmax")
