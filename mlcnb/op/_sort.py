"""Stable sorts of positions, as loops: few by merging runs, many by the digits of their keys; the
first of many are found by digits too, and then sorted.

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
from mlcnb.tir.op.mathematics import reinterpret
from mlcnb.tir.stmt import IfThenElse, Stmt, While

#: so many positions are sorted by digits: each byte costs a walk over all its digits
BY_DIGITS = 256
#: digits of a byte
DIGITS = 256
#: bits of the digits by which the first of many are told from the others
WIDE = 11
#: a first bound is found among so many times as many as are wanted, or this part of a longer row
SAMPLE = 16
#: elements of a row that are looked at together, where most of them are passed over
RUN = 64

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


def sorted_rows(data: Buffer, order: Buffer, axis: int, before: Before) -> Stmt:
    """The order of each row of `data`."""
    index, count = index_dtype(data), data.shape[axis]
    is_long = (as_int(count) or 0) >= BY_DIGITS
    work = sort_of(is_long, order.dtype, count, index)

    def row(*others: Var) -> Stmt:
        def place(k: Any) -> tuple[Any, ...]:
            return (*others[:axis], k, *others[axis:])

        return seq(
            loop("k", count, lambda k: store(order, place(k), k), index),
            work.sorts(order, place, lambda at: load(data, *place(at)), before),
        )

    others = [*data.shape[:axis], *data.shape[axis + 1 :]]
    return with_scratch(work.buffers, nest(others, row, index), name="sort")


def passing(
    found: Buffer,
    extent: Any,
    test: Callable[[Any], PrimExpr],
    act: Callable[[Any], Stmt],
    index: DType,
) -> Stmt:
    """act(k) for each k that passes `test`, in order: few do, so whole runs are looked at first.

    found: a scratch buffer of one integer.
    """

    def one(k: Any) -> Stmt:
        return IfThenElse(test(k), act(k))

    def run(r: Var) -> Stmt:
        def look(k: Var) -> Stmt:
            return hold(found, held(found) + p.cast(found.dtype, test(r * RUN + k)))

        each = loop("k", RUN, lambda k: one(r * RUN + k), index)
        looked = loop("k", RUN, look, index)
        return seq(hold(found, 0), looked, IfThenElse(p.greater(held(found), 0), each))

    runs = p.floordiv(extent, RUN)
    rest = loop("k", extent - runs * RUN, lambda k: one(runs * RUN + k), index)
    return seq(loop("r", runs, run, index), rest)


def selected_rows(data: Buffer, order: Buffer, axis: int, count: int, before: Before) -> Stmt:
    """The first `count` of the order of each row of `data`, of which there are more."""
    index, size = index_dtype(data), data.shape[axis]
    select = _Select(order.dtype, data.dtype, size, count, before is falling, index)

    def row(*others: Var) -> Stmt:
        def place(k: Any) -> tuple[Any, ...]:
            return (*others[:axis], k, *others[axis:])

        return select.row(lambda k: load(data, *place(k)), order, place)

    others = [*data.shape[:axis], *data.shape[axis + 1 :]]
    return with_scratch(select.buffers, nest(others, row, index), name="select")


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


class _Select:
    """The first `count` of a row, by a bound on their ranks that falls digit by digit.

    bound = that of some of the row
    for k in row: if rank(k) <= bound: places, ranks += k, rank(k)
    for each digit, while there are many: bound = lower; places, ranks = those within it
    sort what is left
    """

    def __init__(
        self, kind: DType, of: DType, size: Any, count: int, falls: bool, index: DType
    ) -> None:
        self.size, self.count, self.falls, self.index = size, count, falls, index
        self.key = rank(p.const(0, of), falls).dtype
        self.width = min(WIDE, self.key.bits)
        few = count + count // 4 + DIGITS // 2  # narrowed no further
        self.few = few if as_int(size) is None else min(few, as_int(size) or few)
        room = p.maximum(size, few) if as_int(size) is None else size
        self.places, self.ranks = scratch("places", kind, room), scratch("ranks", self.key, room)
        self.order = scratch("sorted", kind, self.few)
        self.digits = scratch("digits", "int32", 1 << self.width)
        names = ("many", "kept", "less")
        self.many, self.kept, self.less = (scratch(name, kind) for name in names)
        self.digit, self.bound = scratch("digit", "int32"), scratch("bound", self.key)
        self.found = scratch("found", "int32")
        work = scratch("work", kind, self.few)
        self.sort = sort_of(count >= BY_DIGITS, kind, held(self.many), index, work)
        self.buffers = [
            self.places, self.ranks, self.order, self.digits, self.many, self.kept, self.less,
            self.digit, self.bound, self.found, work, *self.sort.buffers,
        ]  # fmt: skip

    def row(self, value: Callable[[Any], PrimExpr], order: Buffer, place: Place) -> Stmt:
        """order[place(k)] for the first; beyond a row that is too short, places that it lacks."""
        kind, levels = order.dtype, -(-self.key.bits // self.width)
        shifts = [max(self.key.bits - self.width * (n + 1), 0) for n in range(levels)]
        some = p.minimum(self.size, p.maximum(SAMPLE * self.count, p.floordiv(self.size, SAMPLE)))
        known = as_int(some)
        digits = 1 if known is not None and known == as_int(self.size) else min(levels, 2)

        def ranked(k: Any) -> PrimExpr:
            return rank(value(k), self.falls)

        def place_of(k: Any) -> PrimExpr:
            return load(self.places, load(self.order, k))

        def give(k: Var) -> Stmt:
            if as_int(self.size) is not None:
                return store(order, place(k), place_of(k))
            there = p.less(p.cast(kind, k), held(self.many))
            return store(order, place(k), p.if_then_else(there, place_of(k), p.cast(kind, k)))

        return seq(
            *(
                self.lower(some, ranked, shifts[n], shifts[n - 1] if n else None)
                for n in range(digits)
            ),
            hold(self.many, 0),
            passing(
                self.found,
                self.size,
                lambda k: p.less_equal(ranked(k), held(self.bound)),
                lambda k: self.keep(self.many, k, ranked(k)),
                self.index,
            ),
            *(self.narrow(n, shifts) for n in range(levels)),
            loop("k", held(self.many), lambda k: store(self.order, [k], k)),
            self.sort.sorts(self.order, lambda k: (k,), lambda k: load(self.ranks, k), rising),
            loop("k", self.count, give, self.index),
        )

    def keep(self, end: Buffer, place: Any, found: PrimExpr) -> Stmt:
        """One more within the bound."""
        return seq(
            store(self.places, [held(end)], place),
            store(self.ranks, [held(end)], found),
            hold(end, held(end) + 1),
        )

    def narrow(self, level: int, shifts: Sequence[int]) -> Stmt:
        """Those within the bound that one more digit makes; of those at the last, the first."""
        above = shifts[level - 1] if level else None
        is_last = level == len(shifts) - 1

        def again(k: Var) -> Stmt:
            def within(place: Var, found: Var) -> Stmt:
                kept = self.keep(self.kept, place, found)
                if not is_last:
                    return IfThenElse(p.less_equal(found, held(self.bound)), kept)
                tie = p.logical_and(
                    p.equal(found, held(self.bound)), p.less(held(self.less), self.count)
                )
                one_less = hold(self.less, held(self.less) + 1)
                return IfThenElse(
                    p.less(found, held(self.bound)), kept, IfThenElse(tie, seq(kept, one_less))
                )

            at = load(self.places, k), load(self.ranks, k)
            return let(within, place=at[0], found=at[1])

        return IfThenElse(
            p.greater(held(self.many), self.few),
            seq(
                self.lower(held(self.many), lambda k: load(self.ranks, k), shifts[level], above),
                hold(self.kept, 0),
                loop("k", held(self.many), again),
                hold(self.many, held(self.kept)),
            ),
        )

    def lower(
        self, extent: Any, ranked: Callable[[Any], PrimExpr], shift: int, above: int | None
    ) -> Stmt:
        """The bound as low as one more digit makes it, of those that share the digits above."""
        key = self.key
        one_more, bits = p.const(1, "int32"), p.const((1 << self.width) - 1, key)

        def head(found: PrimExpr) -> PrimExpr:
            return found >> p.const(above or 0, key)

        def counted(k: Var) -> Stmt:
            def count(found: Var) -> Stmt:
                digit = p.cast("int32", (found >> p.const(shift, key)) & bits)
                more = let(
                    lambda d: store(self.digits, [d], load(self.digits, d) + one_more), d=digit
                )
                if above is None:
                    return more
                return IfThenElse(p.equal(head(found), head(held(self.bound))), more)

            return let(count, found=ranked(k))

        here = load(self.digits, held(self.digit))
        goes_on = p.logical_and(
            p.less(held(self.digit), (1 << self.width) - 1),
            p.less(held(self.less) + p.cast(self.less.dtype, here), self.count),
        )
        step = seq(
            hold(self.less, held(self.less) + p.cast(self.less.dtype, here)),
            hold(self.digit, held(self.digit) + 1),
        )
        prefix: PrimExpr = p.const(0, key)
        if above is not None:
            prefix = head(held(self.bound)) << p.const(above, key)
        low = p.cast(key, held(self.digit)) << p.const(shift, key)
        return seq(
            loop("c", 1 << self.width, lambda c: store(self.digits, [c], 0), self.index),
            loop("k", extent, counted),
            hold(self.digit, 0),
            *([hold(self.less, 0)] if above is None else []),
            While(goes_on, step),
            hold(self.bound, prefix | low | p.const((1 << shift) - 1, key)),
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
