"""Which boxes are kept of those that overlap: what vision.non_max_suppression and its like share.

while there is room, and some are left:    the next best of the good ones, sorted
    for each:   for runs of those kept:    near = near or any(shares too much)    by vectors
                unless near:               one more is kept

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
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.op._dims import refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, nest, scratch, seq, store, with_scratch
from mlcnb.op._select import BestFirst
from mlcnb.op._sort import SomeSort, falling
from mlcnb.relax.operator import OpDecl
from mlcnb.relax.traits import Measured
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

INT64 = dtype("int64")
#: kept boxes that one is compared with in a run, by vectors
BESIDE = 16
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
        keep = Keep(scores, order, work, kept, many, *shapes, *limits)

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

    def side(self, keep: Keep, boxes: Buffer, at: Sequence[Any], d: int) -> Stmt:
        """Where a box begins and ends in direction d."""
        a, b = load(boxes, *at, d), load(boxes, *at, d + 2)
        low, high = p.minimum(a, b), p.maximum(a, b)
        if self.is_centered:
            low, high = a - b / 2, a + b / 2
        return seq(store(keep.low, [*at, d], low), store(keep.high, [*at, d], high))


class Keep:
    """Loops that find kept[b, c, :many[b, c]]: the boxes of a sample and class, best first.

    order: the next of the good ones by falling score; work: for their sort; low, high, area: of
    each box; beside: those of the boxes that are kept, in whole runs, the last one filled up with
    empty boxes.
    """

    def __init__(self, *buffers: Buffer) -> None:
        self.scores, self.order, self.work, self.kept, self.many = buffers[:5]
        self.low, self.high, self.area = buffers[5:8]
        limits = [load(b, *([0] * len(b.shape))) for b in buffers[8:]]
        self.most, self.overlap, self.least = p.cast("int64", limits[0]), *limits[1:]
        n, kind = self.order.shape[2], self.area.dtype
        self.gone, self.at = scratch("gone", "int32"), scratch("at", INT64)
        self.beside = scratch("beside", kind, p.floordiv(n + BESIDE - 1, BESIDE), 5, BESIDE)
        self.best = BestFirst(self.scores.dtype, n, self.least)
        self.sort = SomeSort(self.best.many, self.work)
        own = [self.gone, self.at, self.beside]
        self.scratches = [*own, *self.best.buffers, *self.sort.buffers]

    def measure(self, b: Var, i: Var) -> Stmt:
        """The area of a box."""
        sides = [load(self.high, b, i, d) - load(self.low, b, i, d) for d in range(2)]
        return store(self.area, [b, i], sides[0] * sides[1])

    def of_class(self, b: Var, c: Var) -> Stmt:
        """The boxes that are kept of a sample and class."""
        score = functools.partial(load, self.scores, b, c)
        has_room = p.less(load(self.many, b, c), self.most)

        def candidate(k: Var) -> Stmt:
            taken = let(lambda i: self.take(b, c, i), i=load(self.order, b, c, k))
            return IfThenElse(has_room, taken)

        batch = seq(
            self.best.batch(score, lambda i, at: store(self.order, [b, c, at], i)),
            self.sort.sorts(self.order, lambda k: (b, c, k), score, falling),
            loop("k", held(self.best.many), candidate, INT64),
        )
        return seq(
            store(self.many, [b, c], 0),
            self.best.begin(score, self.most),
            While(p.logical_and(has_room, self.best.is_left), batch),
        )

    def take(self, b: Var, c: Var, i: Var) -> Stmt:
        """Keep box i, unless it shares too much with one that is kept."""
        gone, at, many = self.gone, self.at, load(self.many, b, c)
        more = p.logical_and(p.less(held(at) * BESIDE, many), p.equal(held(gone), 0))

        def judge(*box: Var) -> Stmt:
            def run(r: Var) -> Stmt:
                def look(k: Var) -> Stmt:
                    other = [load(self.beside, r, d, k) for d in range(5)]
                    return hold(gone, held(gone) + p.cast(gone.dtype, self.is_near(box, other)))

                return seq(loop("k", BESIDE, look, INT64), hold(at, r + 1))

            kept = IfThenElse(p.equal(held(gone), 0), self.keep(b, c, i, box))
            return seq(hold(gone, 0), hold(at, 0), While(more, let(run, r=held(at))), kept)

        sides = [load(side, b, i, d) for side in (self.low, self.high) for d in range(2)]
        names = ("bottom", "left", "top", "right", "size")
        return let(judge, **dict(zip(names, [*sides, load(self.area, b, i)], strict=True)))

    def keep(self, b: Var, c: Var, i: Var, box: Sequence[PrimExpr]) -> Stmt:
        """One more is kept."""

        def put(place: Var, r: Var, k: Var) -> Stmt:
            def clear(d: Var, other: Var) -> Stmt:
                return store(self.beside, [r, d, other], 0)

            return seq(
                IfThenElse(p.equal(k, 0), nest([5, BESIDE], clear, INT64)),
                *(store(self.beside, [r, d, k], v) for d, v in enumerate(box)),
                store(self.kept, [b, c, place], i),
                store(self.many, [b, c], place + 1),
            )

        place = load(self.many, b, c)
        return let(put, place=place, r=p.floordiv(place, BESIDE), k=p.floormod(place, BESIDE))

    def is_near(self, box: Sequence[PrimExpr], other: Sequence[PrimExpr]) -> PrimExpr:
        """Whether two boxes share more than they may."""
        zero = p.const(0, self.area.dtype)
        sides = (smaller(box[2 + d], other[2 + d]) - larger(box[d], other[d]) for d in range(2))
        both = functools.reduce(p.multiply, (larger(side, zero) for side in sides))
        joint = box[4] + other[4] - both
        positive = [p.greater(v, zero) for v in (box[4], other[4], joint, both)]
        share = p.select(functools.reduce(p.logical_and, positive), p.div(both, joint), zero)
        return p.greater(share, self.overlap)


def smaller(v: PrimExpr, w: PrimExpr) -> PrimExpr:
    """The minimum, one instruction: where one is NaN, so is an area, and nothing is shared."""
    return p.select(p.less(v, w), v, w)


def larger(v: PrimExpr, w: PrimExpr) -> PrimExpr:
    """The maximum; see `smaller`."""
    return p.select(p.greater(v, w), v, w)


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
