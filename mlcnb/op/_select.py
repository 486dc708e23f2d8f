"""Of a row of many: those that pass a test, and the first, found by the digits of their keys.

bound = …                                            as `_Select` says
for each run of 64: if one of them has rank <= bound: …        by vectors
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
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
from mlcnb.op._sort import BY_DIGITS, DIGITS, Before, falling, rank, rising, sort_of
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

#: bits of the digits by which the first of many are told from the others
WIDE = 11
#: a first bound is found among so many times as many as are wanted, or this part of a longer row
SAMPLE = 16
#: elements of a row that are looked at together, where most of them are passed over
RUN = 64
#: so few are not told apart before they are sorted; of more, every so manieth is counted in a bin
FEW, EVERY, BINS = 64, 8, 256


def passing(
    found: Buffer,
    extent: Any,
    test: Callable[[Any], PrimExpr],
    act: Callable[[Any], Stmt],
    index: DType,
    is_tested: bool = False,
) -> Stmt:
    """act(k) for each k that passes `test`, in order: few do, so whole runs are looked at first.

    found: a scratch buffer of one integer; is_tested: `act` itself is nothing where `test` fails,
    and costs less than a jump that nobody foresees.
    """

    def one(k: Any) -> Stmt:
        return act(k) if is_tested else IfThenElse(test(k), act(k))

    def run(r: Var) -> Stmt:
        def look(k: Var) -> Stmt:
            return hold(found, held(found) + p.cast(found.dtype, test(r * RUN + k)))

        each = loop("k", RUN, lambda k: one(r * RUN + k), index)
        looked = loop("k", RUN, look, index)
        return seq(hold(found, 0), looked, IfThenElse(p.greater(held(found), 0), each))

    runs = p.floordiv(extent, RUN)
    rest = loop("k", extent - runs * RUN, lambda k: one(runs * RUN + k), index)
    return seq(loop("r", runs, run, index), rest)


class BestFirst:
    """The elements of a row that are more than a floor, the largest first, some at a time: who
    takes the best until there are enough sorts those only.

    bins = how many of some of the good ones lie where, between the largest and the floor
    while there are some left: the next bins that hold about `want`; want = 2 want
    """

    def __init__(self, of: DType, size: Any, floor: PrimExpr) -> None:
        self.kind = max(of, floor.dtype, key=lambda kind: kind.bits)  # what both are compared in
        self.size, self.floor = size, p.cast(self.kind, floor)
        self.last = rank(self.floor, True)
        self.key = self.last.dtype
        self.many, self.want, self.seen = (
            scratch(name, "int64") for name in ("many", "want", "seen")
        )
        self.found, self.bins = scratch("found", "int32"), scratch("bins", "int32", BINS)
        self.bin, self.end = scratch("bin", self.key), scratch("end", self.key)
        self.top, self.shift = scratch("top", self.key), scratch("shift", self.key)
        self.start, self.bound = scratch("start", self.key), scratch("bound", self.key)
        self.buffers = [
            self.many, self.want, self.seen, self.found, self.bins, self.bin, self.end, self.top,
            self.shift, self.start, self.bound,
        ]  # fmt: skip

    @property
    def is_left(self) -> PrimExpr:
        """There may be more."""
        return p.less(held(self.bound), self.last)

    def is_good(self, v: PrimExpr) -> PrimExpr:
        """More than the floor, and no NaN."""
        return p.greater(p.cast(self.kind, v), self.floor)

    def key_of(self, v: PrimExpr) -> PrimExpr:
        """Smaller the earlier `v` comes."""
        return rank(p.cast(self.kind, v), True)

    def begin(self, value: Callable[[Any], PrimExpr], most: Any) -> Stmt:
        """Before the first batch of a row, of which about `most` elements are wanted."""
        count = loop(
            "k",
            self.size,
            lambda k: hold(self.found, held(self.found) + p.cast("int32", self.is_good(value(k)))),
        )
        zero = p.const(0, self.key)
        want = p.maximum(p.minimum(p.cast("int64", most), self.size), FEW)
        return seq(
            *(hold(b, zero) for b in (self.bound, self.end)),
            hold(self.bin, 1),
            hold(self.want, want),
            hold(self.found, 0),
            count,
            IfThenElse(p.greater(p.cast("int64", held(self.found)), 2 * want), self.counted(value)),
        )

    def counted(self, value: Callable[[Any], PrimExpr]) -> Stmt:
        """Fill the bins."""
        one, some = p.const(1, self.key), p.floordiv(self.size, EVERY)

        def highest(k: Var) -> Stmt:
            v = value(k * EVERY)
            here = p.select(self.is_good(v), self.key_of(v), self.last)
            return hold(self.top, p.minimum(held(self.top), here))

        def count(k: Var) -> Stmt:
            v = value(k * EVERY)
            place = p.cast("int32", (self.key_of(v) - held(self.top)) >> held(self.shift))
            more = let(lambda d: store(self.bins, [d], load(self.bins, d) + 1), d=place)
            return IfThenElse(self.is_good(v), more)

        width = (self.last - held(self.top)) >> held(self.shift)
        return seq(
            hold(self.top, self.last),
            loop("k", some, highest),
            hold(self.shift, 0),
            While(
                p.greater_equal(width, p.const(BINS, self.key)),
                hold(self.shift, held(self.shift) + one),
            ),
            hold(self.bin, 0),
            hold(self.end, width),
            loop("c", BINS, lambda c: store(self.bins, [c], 0)),
            loop("k", some, count),
        )

    def batch(self, value: Callable[[Any], PrimExpr], put: Callable[[Any, Any], Stmt]) -> Stmt:
        """put(k, at) for `many` elements k, at = 0, 1, …: those that come next, in order of k."""
        one = p.const(1, self.key)
        is_more = p.logical_and(
            p.less_equal(held(self.bin), held(self.end)),
            p.less(held(self.seen) * EVERY, held(self.want)),
        )
        step = seq(
            hold(
                self.seen,
                held(self.seen) + p.cast("int64", load(self.bins, p.cast("int32", held(self.bin)))),
            ),
            hold(self.bin, held(self.bin) + one),
        )
        bound = held(self.top) + (held(self.bin) << held(self.shift))

        def is_next(k: Any) -> PrimExpr:
            v = value(k)
            behind = self.key_of(v) - held(self.start)
            return p.logical_and(
                self.is_good(v), p.less(behind, held(self.bound) - held(self.start))
            )

        def keep(k: Any) -> Stmt:
            return seq(put(k, held(self.many)), hold(self.many, held(self.many) + 1))

        return seq(
            hold(self.start, held(self.bound)),
            hold(self.seen, 0),
            While(is_more, step),
            hold(
                self.bound,
                p.if_then_else(p.less_equal(held(self.bin), held(self.end)), bound, self.last),
            ),
            hold(self.want, 2 * held(self.want)),
            hold(self.many, 0),
            passing(self.found, self.size, is_next, keep, dtype("int64")),
        )


def selected_rows(data: Buffer, order: Buffer, axis: int, count: int, before: Before) -> Stmt:
    """The first `count` of the order of each row of `data`, of which there are more."""
    index, size = index_dtype(data), data.shape[axis]
    select = _Select(order.dtype, data.dtype, size, count, before is falling, index)

    def row(place: Place) -> Stmt:
        return select.row(lambda k: load(data, *place(k)), order, place)

    return with_scratch(select.buffers, rows(data.shape, axis, row, index), name="select")


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
