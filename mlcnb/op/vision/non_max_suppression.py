"""Boxes that overlap: vision.non_max_suppression.

How many are left depends on the data: loops find which, then others write them in rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.op._dims import refuse, tell, tensor, tidy, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, nest, scratch, seq, store, with_scratch
from mlcnb.op._select import passing
from mlcnb.op._sort import SomeSort, falling
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.traits import Measured
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

INT64 = dtype("int64")
#: boxes that are compared with each other at a time
TOGETHER = 64


class Suppression(Measured, OpDecl):
    """What both spellings have in common: which boxes are kept."""

    __slots__ = ()

    @property
    def is_centered(self) -> bool:
        """Whether boxes are a centre and sides, in place of two corners."""
        return False

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
        if self.is_centered:
            return a - b / 2, a + b / 2
        return np.minimum(a, b), np.maximum(a, b)

    def measure(self, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
        """Which boxes of each sample and class are kept, how many, what the loops work in, and how
        many are kept altogether.
        """
        kind = boxes.dtype
        if kind not in ("float32", "float64"):
            raise UnsupportedOpError(f"its loops compute with float32 and float64, not {kind}")
        b, c, n = scores.shape
        shapes = [(b, c, n), (b, c), (b, c, n), (n,), (b, n, 2), (b, n, 2), (b, n), (1,)]
        kinds = ["int64"] * 4 + [str(kind)] * 3 + ["int64"]
        given = [boxes, scores, most, overlap, least]
        return te.extern(shapes, given, self.loops, "keep", kinds)

    def fill(self, sizes: Any, found: Any, *args: Any) -> Any:
        """A row for each box that is kept."""
        return te.extern((*sizes, 3), found[:2], _rows, "non_max_suppression", "int64")

    def loops(self, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        """The corners and areas of the boxes, then class by class which are kept."""
        boxes, scores, *limits = ins
        kept, many, order, work, *shapes, total = outs
        keep = _Keep(scores, order, work, kept, many, *shapes, *limits)

        def corners(b: Var, i: Var) -> Stmt:
            return seq(*(self.side(keep, boxes, (b, i), d) for d in range(2)), keep.measure(b, i))

        def count(b: Var, c: Var) -> Stmt:
            return store(total, [0], load(total, 0) + load(many, b, c))

        return with_scratch(
            keep.scratches,
            nest(boxes.shape[:2], corners, INT64),
            nest(many.shape, keep.of_class, INT64),
            store(total, [0], 0),
            nest(many.shape, count, INT64),
            name="keep",
        )

    def side(self, keep: _Keep, boxes: Buffer, at: Sequence[Any], d: int) -> Stmt:
        """Where a box begins and ends in direction d."""
        a, b = load(boxes, *at, d), load(boxes, *at, d + 2)
        low, high = p.minimum(a, b), p.maximum(a, b)
        if self.is_centered:
            low, high = a - b / 2, a + b / 2
        return seq(store(keep.low, [*at, d], low), store(keep.high, [*at, d], high))


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


class _Keep:
    """Loops that find kept[b, c, :many[b, c]]: the boxes of a sample and class, best first.

    order: the good ones by falling score; work: for their sort; low, high, area: of each box.
    """

    def __init__(self, *buffers: Buffer) -> None:
        self.scores, self.order, self.work, self.kept, self.many = buffers[:5]
        self.low, self.high, self.area = buffers[5:8]
        limits = [load(b, *([0] * len(b.shape))) for b in buffers[8:]]
        self.most, self.overlap, self.least = p.cast("int64", limits[0]), *limits[1:]
        self.gone, self.at, self.good = (scratch(name, INT64) for name in ("gone", "at", "good"))
        self.found, self.sort = scratch("found", "int32"), SomeSort(self.good, self.work)
        self.scratches = [self.gone, self.at, self.good, self.found, *self.sort.buffers]

    def measure(self, b: Var, i: Var) -> Stmt:
        """The area of a box."""
        sides = [load(self.high, b, i, d) - load(self.low, b, i, d) for d in range(2)]
        return store(self.area, [b, i], sides[0] * sides[1])

    def of_class(self, b: Var, c: Var) -> Stmt:
        """The boxes that are kept of a sample and class."""

        n, score = self.order.shape[2], functools.partial(load, self.scores, b, c)

        def candidate(k: Var) -> Stmt:
            taken = let(lambda i: self.take(b, c, i), i=load(self.order, b, c, k))
            return IfThenElse(p.less(load(self.many, b, c), self.most), taken)

        def put(i: Any) -> Stmt:
            at = held(self.good)
            return seq(store(self.order, [b, c, at], i), hold(self.good, at + 1))

        return seq(
            hold(self.good, 0),
            passing(self.found, n, lambda i: p.greater(score(i), self.least), put, INT64),
            self.sort.sorts(self.order, lambda k: (b, c, k), score, falling),
            store(self.many, [b, c], 0),
            loop("k", held(self.good), candidate, INT64),
        )

    def take(self, b: Var, c: Var, i: Var) -> Stmt:
        """Keep box i, unless it shares too much with one that is kept."""
        place, gone, at = load(self.many, b, c), self.gone, self.at

        def next_kept(j: Var) -> Stmt:
            return seq(self.compare(b, i, j), hold(at, held(at) + 1))

        more = p.logical_and(p.less(held(at), place), p.equal(held(gone), 0))
        taken = seq(store(self.kept, [b, c, place], i), store(self.many, [b, c], place + 1))
        return seq(
            hold(gone, 0),
            hold(at, 0),
            While(more, let(next_kept, j=load(self.kept, b, c, held(at)))),
            IfThenElse(p.equal(held(gone), 0), taken),
        )

    def compare(self, b: Var, i: Var, j: Var) -> Stmt:
        """gone: two boxes share more than they may."""
        sides = [
            p.minimum(load(self.high, b, i, d), load(self.high, b, j, d))
            - p.maximum(load(self.low, b, i, d), load(self.low, b, j, d))
            for d in range(2)
        ]
        zero = p.const(0, self.area.dtype)
        areas = [load(self.area, b, i), load(self.area, b, j)]

        def judge(both: Var, joint: Var) -> Stmt:
            positive = [p.greater(v, zero) for v in (*areas, joint, both)]
            sound = functools.reduce(p.logical_and, positive)
            share = p.if_then_else(sound, p.div(both, joint), zero)
            return IfThenElse(p.greater(share, self.overlap), hold(self.gone, 1))

        shared = p.maximum(sides[0], zero) * p.maximum(sides[1], zero)
        return let(
            lambda both: let(lambda joint: judge(both, joint), joint=areas[0] + areas[1] - both),
            both=shared,
        )


def _rows(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    """(sample, class, box) of each that is kept."""
    (kept, many), (rows,) = ins, outs
    at = scratch("at", INT64)

    def row(b: Var, c: Var, k: Var) -> Stmt:
        values = (b, c, load(kept, b, c, k))
        return seq(
            *(store(rows, [held(at), d], v) for d, v in enumerate(values)), hold(at, held(at) + 1)
        )

    def boxes_of(b: Var, c: Var) -> Stmt:
        return loop("k", load(many, b, c), lambda k: row(b, c, k), INT64)

    return with_scratch([at], hold(at, 0), nest(many.shape, boxes_of, INT64), name="rows")


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
