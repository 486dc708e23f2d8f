"""Stable sorts of positions, as loops: few by merging runs, many by the digits of their keys.

    order = 0 1 2 … n-1
    width = 1, 2, 4, … while width < n:                     for each byte of a key, lowest first:
        each two neighbouring runs of that width       or       count how often each digit occurs
        are merged into one, through `work`                     positions go behind those of lower
                                                                digits, through `work`

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
    Place,
    held,
    hold,
    index_dtype,
    let,
    load,
    loop,
    rows,
    scratch,
    seq,
    store,
    with_scratch,
)
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.op.mathematics import reinterpret
from mlcnb.tir.stmt import IfThenElse, Stmt, While

#: so many positions are sorted by digits: each byte costs a walk over all its digits
BY_DIGITS = 256
#: digits of a byte
DIGITS = 256

Before = Callable[[PrimExpr, PrimExpr], PrimExpr]


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


def sorted_rows(data: Buffer, order: Buffer, axis: int, before: Before) -> Stmt:
    """The order of each row of `data`."""
    index, count = index_dtype(data), data.shape[axis]
    is_long = (as_int(count) or 0) >= BY_DIGITS
    work = sort_of(is_long, order.dtype, count, index)

    def row(place: Place) -> Stmt:
        return seq(
            loop("k", count, lambda k: store(order, place(k), k), index),
            work.sorts(order, place, lambda at: load(data, *place(at)), before),
        )

    return with_scratch(work.buffers, rows(data.shape, axis, row, index), name="sort")


class SomeSort:
    """The sort of `count` positions of a row, any of them, which are few or many.

    Args:
        count: a scratch buffer that holds how many; work: a buffer of as many positions.
    """

    def __init__(self, count: Buffer, work: Buffer) -> None:
        kind, self.count = work.dtype, held(count)
        self.merge = MergeSort(kind, self.count, kind, work)
        self.digits = DigitSort(kind, self.count, kind, work)
        self.buffers = [*self.merge.buffers, *self.digits.buffers]

    def sorts(
        self, order: Buffer, place: Place, key: Callable[[Any], PrimExpr], before: Before
    ) -> Stmt:
        """As MergeSort.sorts; `before` is `rising` or `falling`."""
        return IfThenElse(
            p.less(self.count, BY_DIGITS),
            self.merge.sorts(order, place, key, before),
            self.digits.sorts(order, place, key, before, every=False),
        )


def sort_of(
    is_long: bool, kind: DType, count: Any, index: DType, work: Buffer | None = None
) -> MergeSort | DigitSort:
    """A sort of `count` positions, of many if `is_long`; the arguments are those of MergeSort."""
    return (DigitSort if is_long else MergeSort)(kind, count, index, work)


class MergeSort:
    """The sort of `count` positions, and the buffers that it works in.

    Args:
        kind: dtype of a position; index: of loops; work: a buffer of `count` positions, if there
            is one.
    """

    def __init__(self, kind: DType, count: Any, index: DType, work: Buffer | None = None) -> None:
        self.count, self.index = count, index
        self.work = work or scratch("work", kind, count)
        names = ("width", "left", "right", "middle", "end")
        self.width, self.left, self.right, self.middle, self.end = (
            scratch(name, kind) for name in names
        )
        self.buffers = [
            *([] if work else [self.work]),
            self.width, self.left, self.right, self.middle, self.end,
        ]  # fmt: skip

    def sorts(
        self, order: Buffer, place: Place, key: Callable[[Any], PrimExpr], before: Before
    ) -> Stmt:
        """Bring positions, which stand at `place` in `order`, into the order of their keys; those
        of equal keys keep theirs.
        """
        count, width, left, right = self.count, self.width, self.left, self.right

        def merge_to(k: Var) -> Stmt:
            """work[k]: the next of the two runs that k lies in."""
            first, second = (
                load(order, *place(p.minimum(held(run), count - 1))) for run in (left, right)
            )
            return seq(
                IfThenElse(p.equal(k, held(self.end)), self.next_runs(k)),
                let(lambda *both: next_to(k, both), first=first, second=second),
            )

        def next_to(k: Var, both: tuple[Var, ...]) -> Stmt:
            """work[k]: the head of the left run, or of the right one if that comes before it."""
            first, second = both
            smaller = before(key(second), key(first))
            waiting = p.logical_and(p.less(held(right), held(self.end)), smaller)
            return IfThenElse(
                p.logical_or(p.greater_equal(held(left), held(self.middle)), waiting),
                seq(store(self.work, [k], second), hold(right, held(right) + 1)),
                seq(store(self.work, [k], first), hold(left, held(left) + 1)),
            )

        merge = seq(
            hold(self.end, 0),
            loop("k", count, merge_to, self.index),
            loop("k", count, lambda k: store(order, place(k), load(self.work, k)), self.index),
            hold(width, held(width) * 2),
        )
        return seq(hold(width, 1), While(p.less(held(width), count), merge))

    def next_runs(self, k: Var) -> Stmt:
        """Two runs begin at k."""
        return seq(
            hold(self.left, k),
            hold(self.middle, p.minimum(k + held(self.width), self.count)),
            hold(self.right, held(self.middle)),
            hold(self.end, p.minimum(k + held(self.width) * 2, self.count)),
        )


class DigitSort:
    """The same by the bytes of the keys; see MergeSort."""

    def __init__(self, kind: DType, count: Any, index: DType, work: Buffer | None = None) -> None:
        self.count, self.index, self.kind = count, index, kind
        self.work = work or scratch("work", kind, count)
        self.counts = scratch("counts", kind, DIGITS)
        self.total, self.most = scratch("total", kind), scratch("most", kind)
        self.buffers = [*([] if work else [self.work]), self.counts, self.total, self.most]

    def sorts(
        self,
        order: Buffer,
        place: Place,
        key: Callable[[Any], PrimExpr],
        before: Before,
        every: bool = True,
    ) -> Stmt:
        """As MergeSort.sorts; `before` is `rising` or `falling`; every: positions are all there
        are below `count`.
        """
        counts, count, index = self.counts, self.count, self.index
        falls = before is falling
        size = rank(key(p.const(0, self.kind)), falls).dtype.bits // 8

        def by_byte(byte: Var) -> Stmt:
            def digit(i: Any) -> PrimExpr:
                found = rank(key(i), falls)
                shifted = found >> p.cast(found.dtype, byte * 8)
                return p.cast(self.kind, shifted & p.const(DIGITS - 1, found.dtype))

            def counted(k: Var) -> Stmt:
                return let(
                    lambda d: store(counts, [d], load(counts, d) + 1),
                    d=digit(p.cast(self.kind, k) if every else load(order, *place(k))),
                )

            def placed(k: Var) -> Stmt:
                return let(lambda i: let(lambda d: put(i, d), d=digit(i)), i=load(order, *place(k)))

            def put(i: Var, d: Var) -> Stmt:
                return seq(
                    store(self.work, [load(counts, d)], i), store(counts, [d], load(counts, d) + 1)
                )

            move = seq(
                loop("k", count, placed, index),
                loop("k", count, lambda k: store(order, place(k), load(self.work, k)), index),
            )
            return seq(
                loop("c", DIGITS, lambda c: store(counts, [c], 0), index),
                loop("k", count, counted, index),
                hold(self.total, 0),
                hold(self.most, 0),
                loop("c", DIGITS, self.begin, index),
                IfThenElse(p.less(held(self.most), count), move),  # else all have this digit
            )

        return loop("byte", size, by_byte, index)

    def begin(self, c: Var) -> Stmt:
        """counts[c]: how many have a lower digit, in place of how many have this one."""
        return let(
            lambda here: seq(
                store(self.counts, [c], held(self.total)),
                hold(self.total, held(self.total) + here),
                hold(self.most, p.maximum(held(self.most), here)),
            ),
            here=load(self.counts, c),
        )


def rank(v: PrimExpr, falls: bool) -> PrimExpr:
    """An unsigned integer that is smaller the earlier `v` comes; equal keys have equal ones."""
    kind = v.dtype
    if kind.is_float and kind not in ("float32", "float64"):
        return rank(p.cast("float32", v), falls)
    if kind == "bool":
        return rank(p.cast("uint8", v), falls)
    unsigned = f"uint{kind.bits}"
    top = p.const(1 << (kind.bits - 1), unsigned)
    if kind.is_float:
        bits = reinterpret(unsigned, p.select(p.equal(v, p.const(0, kind)), p.const(0, kind), v))
        number = p.select(p.less(bits, top), bits | top, p.bitwise_not(bits))
        made = p.select(te.isnan(v), p.const((1 << kind.bits) - 1, unsigned), number)
    else:
        made = v if str(kind) == unsigned else reinterpret(unsigned, v) ^ top
    return p.bitwise_not(made) if falls else made
