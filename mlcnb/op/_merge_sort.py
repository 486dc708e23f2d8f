"""A merge sort of positions, bottom up and stable, as loops.

    order = 0 1 2 … n-1
    width = 1, 2, 4, … while width < n:
        each two neighbouring runs of that width are merged into one, through `work`

NaN counts as larger than all numbers: last where the order rises, first where it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.op._dims import as_int
from mlcnb.op._loops import (
    held,
    hold,
    index_dtype,
    let,
    load,
    loop,
    nest,
    scratch,
    seq,
    store,
    with_scratch,
)
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

Before = Callable[[PrimExpr, PrimExpr], PrimExpr]
#: an index along the axis -> the whole index
Place = Callable[[Any], tuple[Any, ...]]


def order_of(x: te.Tensor, axis: int, descending: bool) -> te.Tensor:
    """The stable order of the elements along an axis, as loops."""

    def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return sorted_rows(ins[0], outs[0], axis, falling if descending else rising)

    kind = "int32" if all(as_int(d) is not None for d in x.shape) else "int64"
    return te.extern(x.shape, [x], loops, "order", kind)


def rising(v: PrimExpr, w: PrimExpr) -> PrimExpr:
    """v comes before w: it is smaller, or w is NaN and v is not."""
    if not v.dtype.is_float:
        return p.less(v, w)
    return p.logical_or(p.less(v, w), p.logical_and(te.isnan(w), p.logical_not(te.isnan(v))))


def falling(v: PrimExpr, w: PrimExpr) -> PrimExpr:
    """v comes before w: it is larger."""
    return rising(w, v)


def sorted_rows(
    data: Buffer, order: Buffer, axis: int, before: Before, work_in: Buffer | None = None
) -> Stmt:
    """The order of each row of `data`; work_in: a buffer of so many positions, if there is one."""
    index, count = index_dtype(data), data.shape[axis]
    work = MergeSort(order.dtype, count, index, work_in)

    def row(*others: Var) -> Stmt:
        def place(k: Any) -> tuple[Any, ...]:
            return (*others[:axis], k, *others[axis:])

        return seq(
            loop("k", count, lambda k: store(order, place(k), k), index),
            work.sorts(order, place, lambda at: load(data, *place(at)), before),
        )

    others = [*data.shape[:axis], *data.shape[axis + 1 :]]
    return with_scratch(work.buffers, nest(others, row, index), name="merge_sort")


class MergeSort:
    """The sort of `count` positions, and the buffers that it works in.

    Args:
        kind: dtype of a position; index: of loops; work: a buffer of `count` positions, if there
            is one.
    """

    def __init__(self, kind: DType, count: Any, index: DType, work: Buffer | None = None) -> None:
        self.count, self.index = count, index
        self.work = work or scratch("work", kind, count)
        names = ("width", "left", "right")
        self.width, self.left, self.right = (scratch(name, kind) for name in names)
        self.buffers = [*([] if work else [self.work]), self.width, self.left, self.right]

    def sorts(
        self, order: Buffer, place: Place, key: Callable[[Any], PrimExpr], before: Before
    ) -> Stmt:
        """Bring positions, which stand at `place` in `order`, into the order of their keys; those
        of equal keys keep theirs.
        """
        count, width, left, right = self.count, self.width, self.left, self.right

        def merge_to(k: Var) -> Stmt:
            """work[k]: the next of the two runs that k lies in."""
            begin = k - p.floormod(k, held(width) * 2)
            middle = p.minimum(begin + held(width), count)
            end = p.minimum(begin + held(width) * 2, count)
            first, second = (
                load(order, *place(p.minimum(held(run), count - 1))) for run in (left, right)
            )
            return let(
                lambda *bounds: seq(
                    IfThenElse(
                        p.equal(k, bounds[0]),
                        seq(hold(left, bounds[0]), hold(right, bounds[1])),
                    ),
                    let(lambda *both: next_to(k, bounds, both), first=first, second=second),
                ),
                begin=begin,
                middle=middle,
                end=end,
            )

        def next_to(k: Var, bounds: tuple[Var, ...], both: tuple[Var, ...]) -> Stmt:
            """work[k]: the head of the left run, or of the right one if that comes before it."""
            _, middle, end = bounds
            first, second = both
            smaller = before(key(second), key(first))
            waiting = p.logical_and(p.less(held(right), end), smaller)
            return IfThenElse(
                p.logical_or(p.greater_equal(held(left), middle), waiting),
                seq(store(self.work, [k], second), hold(right, held(right) + 1)),
                seq(store(self.work, [k], first), hold(left, held(left) + 1)),
            )

        merge = seq(
            loop("k", count, merge_to, self.index),
            loop("k", count, lambda k: store(order, place(k), load(self.work, k)), self.index),
            hold(width, held(width) * 2),
        )
        return seq(hold(width, 1), While(p.less(held(width), count), merge))
