"""Boxes that overlap, with their number or their scores: vision.all_class_non_max_suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.op._dims import refuse, tensor, tidy
from mlcnb.op._loops import let, load, loop, nest, seq, store
from mlcnb.op.vision._suppression import INT64, Suppression
from mlcnb.relax.operator import Tensor, operator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt


@operator("relax.vision.all_class_non_max_suppression")
class AllClassNonMaxSuppression(Suppression):
    """The boxes that `vision.non_max_suppression` keeps, and how many there are.

    boxes, scores and the three limits are those of that operator. output_format says how they come:
    "onnx": its rows, and (1,) int64.
    "tensorflow": (samples, classes * n, 2) int64, of each sample the rows (class, box); their
    scores, (samples, classes * n); and how many, (samples,) int64. Rows behind these are 0.
    Semantics: https://tvm.apache.org/docs/reference/api/python/relax/op.html
    """

    boxes: Tensor
    scores: Tensor
    max_output_boxes_per_class: Tensor
    iou_threshold: Tensor
    score_threshold: Tensor
    output_format: str = "onnx"

    @property
    def is_measured(self) -> bool:
        """The other form has a place for each box of each class."""
        return self.output_format == "onnx"

    def infer(self, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
        """A matrix of unknown size, and (1,); or places for all boxes, and (samples,)."""
        if self.output_format not in ("onnx", "tensorflow"):
            refuse(
                self,
                f"no output_format {self.output_format!r}",
                hint='"onnx": rows and their number, or "tensorflow": rows of each sample',
            )
        rows = Suppression.infer(self, boxes, scores, most, overlap, least)
        if self.is_measured:
            return TupleStructInfo((rows, tensor([1], "int64")))
        found: tuple[Any, ...] = (None, None, None)
        if scores.dims is not None:
            samples, classes, n = scores.dims
            places = tidy(classes * n)
            found = [samples, places, 2], [samples, places], [samples]
        kinds = ("int64", 3), (scores.dtype, 2), ("int64", 1)
        infos = (tensor(d, kind, rank) for d, (kind, rank) in zip(found, kinds, strict=True))
        return TupleStructInfo(tuple(infos))

    def partly(self, *infos: Any) -> Any:
        """Three columns."""
        return [[None, 3], [1]] if self.is_measured else None

    def numpy(self, *args: Any) -> Any:
        """Class by class"""
        rows = Suppression.numpy(self, *args)
        if self.is_measured:
            return rows, np.array([len(rows)], np.int64)
        samples, classes, n = args[1].shape
        found = np.zeros((samples, classes * n, 2), np.int64)
        best, count = np.zeros(found.shape[:2], args[1].dtype), np.zeros(samples, np.int64)
        for b, c, i in rows.tolist():
            found[b, count[b]], best[b, count[b]] = (c, i), args[1][b, c, i]
            count[b] += 1
        return found, best, count

    def fill(self, sizes: Any, found: Any, *args: Any) -> Any:
        """A row for each box that is kept, and their number."""
        count = te.compute((1,), lambda _: p.cast("int64", sizes[0]), name="count")
        return Suppression.fill(self, sizes, found, *args), count

    def compute(self, boxes: Any, scores: Any, *limits: Any) -> Any:
        """Which boxes are kept, then the places of each sample"""
        kept, many, *_ = self.measure(boxes, scores, *limits)
        samples, classes, n = scores.shape
        shapes = [(samples, classes * n, 2), (samples, classes * n), (samples,)]
        kinds = ["int64", str(scores.dtype), "int64"]
        return tuple(te.extern(shapes, [kept, many, scores], _places, "all_class", kinds))


def _places(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    """(class, box) and the score of each that is kept, sample by sample, 0 behind them."""
    (kept, many, scores), (rows, best, count) = ins, outs
    samples, classes = many.shape

    def clear(b: Var, k: Var) -> Stmt:
        return seq(*(store(rows, [b, k, d], 0) for d in range(2)), store(best, [b, k], 0))

    def place(b: Var, c: Var, i: Var, to: Var) -> Stmt:
        return seq(
            store(rows, [b, to, 0], c),
            store(rows, [b, to, 1], i),
            store(best, [b, to], load(scores, b, c, i)),
            store(count, [b], to + 1),
        )

    def take(b: Var, c: Var, k: Var) -> Stmt:
        return let(lambda i, to: place(b, c, i, to), i=load(kept, b, c, k), to=load(count, b))

    def boxes_of(b: Var, c: Var) -> Stmt:
        return loop("k", load(many, b, c), lambda k: take(b, c, k), INT64)

    def sample(b: Var) -> Stmt:
        return seq(
            loop("k", best.shape[1], lambda k: clear(b, k), INT64),
            store(count, [b], 0),
            loop("c", classes, lambda c: boxes_of(b, c), INT64),
        )

    return nest([samples], sample, INT64)
