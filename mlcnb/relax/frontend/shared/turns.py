"""Loops: written out where the turns are known at import, else a function that calls itself.

    def loop(turn, more, x, rows):              x: what is carried, rows: what a turn adds
        if more:
            y = …                               the body
            turn1 = R.add(turn, 1)
            more1 = R.less(turn1, limit)        and what the body says
            rows1 = rows_append(rows, …)
            r = loop(turn1, more1, y, rows1)
        else:
            r = (x, rows)
        return r

A dimension that a turn may change is a symbol of the function's own; which ones these are shows as
the body is written: where it gives another length than it was given, it is written again for any.

Where it is known what a row is, turns put their rows into a room for some, so that these turns are
one native call (`runtime.whole`), and only a full room is a step of the virtual machine:

    def loop(turn, more, x, rows):              a room's turns
        if more:
            room = rows_room(rows)              R.Tensor((s, …))
            end = R.add(turn, s)
            def turns(turn, more, go, x, room):
                if go:
                    y, turn1, more1 = …         as above
                    go1 = R.logical_and(more1, R.less(turn1, end))
                    r = turns(turn1, more1, go1, y, rows_put(room, …, turn))
                else:
                    r = (turn, more, x, room)
                return r
            r = turns(turn, more, more, x, room)
            rows1 = rows_extend(rows, r[3], r[0])
            r1 = loop(r[0], r[1], r[2], rows1)
        else:
            r1 = (x, rows)
        return r1

Where a size tells how many turns there are, one room is for all: there is no outer function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.expr import IntImm
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import same_dim
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.shared import loop_values as v
from mlcnb.relax.frontend.shared.limits import MAX_TURNS
from mlcnb.relax.frontend.shared.values import sequence
from mlcnb.relax.infer import infer_call
from mlcnb.relax.struct_info import (
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    describe,
)


def turns_of(
    walk: v.Walk,
    node: v.Node,
    step: v.Step,
    carried: list[Any],
    count: int,
    limit: Any = None,
    going: Any = None,
    length: Any = None,
) -> tuple[list[Any], list[Any]]:
    """What is carried in the end, and `count` tensors of rows.

    Args:
        walk: the importer.
        node: the loop.
        step: writes the body once.
        carried: what is carried into the first turn.
        count: how many rows a turn makes.
        limit: how many turns at most, an int64 tensor of one element, or None.
        going: whether there is a first turn, a bool tensor of one element, or None for yes.
        length: how many there are, where a size says so.

    Raises:
        UnsupportedOpError: what is carried is no tensor, or changes its dtype or rank.
    """
    found = v.written_out(walk, node, step, carried, count, limit, going)
    if found is None:
        limit = None if limit is None else v.scalar(node, limit)
        more = v.first_turn(node, limit, going)
        found = Turns(walk, node, step, carried, count, more, limit, length).results()
    return found


class Turns:
    """A loop as a local function.

    Args:
        walk: the Importer, whose emitter gets the bindings.
        node: the Loop or Scan.
        step: writes the body once, from the turn's number and what is carried: the condition (None
            for always), what is carried, rows.
        carried: what is carried into the first turn; `count`: how many rows a turn makes.
        more: whether there is a first turn.
        limit: how many turns at most, an int64 scalar, or None.
        length: how many there are, where a size says so.

    Raises:
        UnsupportedOpError: what is carried is no tensor, or changes its dtype or rank.
    """

    def __init__(
        self,
        walk: v.Walk,
        node: v.Node,
        step: v.Step,
        carried: Sequence[Any],
        count: int,
        more: Any,
        limit: Any,
        length: Any = None,
    ) -> None:
        self.walk, self.node, self.step = walk, node, step
        self.values, self.more, self.limit, self.length = node.values, more, limit, length
        self.carried = list(carried)
        self.infos = [self.tensor(x, f"carried value {i}") for i, x in enumerate(carried)]
        #: of each carried value the axes whose length a turn may change: what was found out when
        #: this loop was written before counts, for a body is written twice at each depth otherwise
        self.open: list[set[int]] = walk.open_axes.setdefault(
            (node.name, node.outputs, len(self.carried)), [set() for _ in carried]
        )
        #: what is known of rows
        self.rows: list[TensorStructInfo] = []
        #: whether turns put their rows into a room
        self.has_room = False
        self.fresh = fresh = walk.emitter.names.fresh
        self.name = fresh("loop")
        hints = ("turn", "more", *("carried" for _ in carried), *("rows" for _ in range(count)))
        self.hints = [fresh(h) for h in hints]

    def tensor(self, x: Any, what: str) -> TensorStructInfo:
        """The struct info of a value that is a tensor of known rank."""
        info: Any = getattr(x, "struct_info", None)
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
            told = isinstance(self.more, rx.Constant)
            self.node.unknown(
                rx.Tuple(tuple(self.carried)) if told else self.more,
                "the number of turns is not known before the model runs, and its "
                f"{what} is no tensor of so many dimensions",
            )
        return TensorStructInfo(info.shape, info.dtype)

    # the function --------------------------------------------------------------------------------

    def function(self) -> tuple[rx.Var, rx.Function]:
        """The function and its variable: the body is written until it fits what it is given."""
        found = self.attempt()
        while found is None:
            found = self.attempt()
        return found

    def attempt(self) -> tuple[rx.Var, rx.Function] | None:
        """The function, or None where a turn changes a length that was taken for fixed."""
        before = len(self.values.found_at_run_time)
        number, more, *values = self.parameters(self.carried_infos())
        with self.walk.emitter.scope(False) as bindings:
            condition, made, rows = self.step(number, values)
            if self.widen(made):
                return None
            self.rows = [self.tensor(x, f"row {i}") for i, x in enumerate(rows)]
            after = self.call("relax.add", number, make_const(np.int64(1)))
            again = self.again(after, condition)
        turn = v.Turn(number, values, bindings, after, again, made, rows)
        inside = set(self.values.found_at_run_time[before:])
        known = all(v.is_known(d, inside) for info in self.rows for _, d in v.axes_of(info))
        self.has_room = bool(rows) and known and not any(self.open)
        if self.has_room and self.length is None:
            return self.room_by_room(turn)
        kept, ret = self.kept(self.length), self.result_info(self.length)
        params = number, more, *values, *kept
        loop = rx.Var(self.name, v.function_info(params, ret))
        add = self.put if self.has_room else self.appended
        with self.walk.emitter.scope(False) as rest:
            longer = [add(k, x, number) for k, x in zip(kept, rows, strict=True)]
            last = self.local_call(loop, (after, again, *made, *longer), ret)
        taken = sequence([*bindings, *rest], last)
        return loop, self.choice(params, more, taken, v.one_or_tuple([*values, *kept]), ret)

    def room_by_room(self, turn: v.Turn) -> tuple[rx.Var, rx.Function]:
        """The function of a room's turns, around that of one turn."""
        number, more, *values = self.parameters(self.infos, anew=True)
        lists, size, ret = self.kept(None), self.values.symbol(), self.result_info(None)
        params = number, more, *values, *lists
        loop = rx.Var(self.name, v.function_info(params, ret))
        with self.walk.emitter.scope(False) as bindings:
            empty = self.empty_rooms(lists, size)
            end = self.call("relax.add", number, v.size_tensor(self.node, size))
            turns, inner = self.turns_of_a_room(turn, size, end)
            bindings.append(rx.VarBinding(turns, inner))
            self.values.bound[turns] = inner
            info = inner.ret_struct_info
            done = self.local_call(turns, (number, more, more, *values, *empty), info)
            parts = range(len(info.fields))  # type: ignore[union-attr]
            reached, again, *found = (self.node.emit(rx.TupleGetItem(done, i)) for i in parts)
            made, full = found[: len(values)], found[len(values) :]
            pairs = zip(lists, full, strict=True)
            longer = [self.packed("rows_extend", old, room, reached) for old, room in pairs]
            last = self.local_call(loop, (reached, again, *made, *longer), ret)
        taken = sequence(bindings, last)
        return loop, self.choice(params, more, taken, v.one_or_tuple([*values, *lists]), ret)

    def turns_of_a_room(self, turn: v.Turn, size: Any, end: Any) -> tuple[rx.Var, rx.Function]:
        """The function of one turn after the other, until there is none or a room is full."""
        more, go = (rx.Var(self.fresh(name), rx.tensor_info((), "bool")) for name in ("more", "go"))
        left = turn.number, more, *turn.values, *(rooms := self.kept(size))
        ret = TupleStructInfo(tuple(p.struct_info for p in left))  # type: ignore[misc]
        params = turn.number, more, go, *turn.values, *rooms
        turns = rx.Var(self.fresh("turns"), v.function_info(params, ret))
        with self.walk.emitter.scope(False) as rest:
            on = self.call("relax.less", turn.after, end)
            if not v.is_true(self.node, turn.again):
                on = self.call("relax.logical_and", turn.again, on)
            pairs = zip(rooms, turn.rows, strict=True)
            filled = [self.put(room, x, turn.number) for room, x in pairs]
            args = (turn.after, turn.again, on, *turn.made, *filled)
            last = self.local_call(turns, args, ret)
        taken = sequence([*turn.bindings, *rest], last)
        return turns, self.choice(params, go, taken, rx.Tuple(left), ret)

    def choice(self, *args: Any) -> rx.Function:
        """A function whose body is one If (`loop_values.choice`)."""
        return v.choice(self.fresh("lv"), *args)

    def empty_rooms(self, lists: Sequence[Any], size: Any) -> list[Any]:
        """A room for each kind of row, all for so many turns."""
        unknown = tuple(TensorStructInfo(dtype=i.dtype, ndim=i.ndim + 1) for i in self.rows)
        made = self.packed("rows_room", *lists, info=TupleStructInfo(unknown))
        items = [self.node.emit(rx.TupleGetItem(made, i)) for i in range(len(lists))]
        pairs = zip(items, self.rows, strict=True)
        return [self.values.cast(x, self.room_info(size, info)) for x, info in pairs]

    def local_call(self, function: rx.Var, args: Sequence[Any], info: Any) -> rx.Var:
        """A call of a local function, bound."""
        return self.values.bind(rx.Call(function, tuple(args), None, (), info, self.node.span))

    def parameters(self, carried: Sequence[StructInfo], anew: bool = False) -> list[rx.Var]:
        """Of the turn, whether it is one, what is carried."""
        infos = [rx.tensor_info((), "int64"), rx.tensor_info((), "bool"), *carried]
        pairs = zip(self.hints, infos, strict=False)
        return [rx.Var(self.fresh(name) if anew else name, info) for name, info in pairs]

    def carried_infos(self) -> list[StructInfo]:
        """Of what is carried: a length that turns may change is a symbol."""
        symbol, pairs = self.values.symbol, zip(self.infos, self.open, strict=True)
        return [
            rx.tensor_info([symbol() if a in open_ else d for a, d in v.axes_of(i)], i.dtype)
            for i, open_ in pairs
        ]

    def kept(self, length: Any) -> list[rx.Var]:
        """Parameters for rows: rooms of this length, where there are rooms, or objects."""
        names = self.hints[2 + len(self.carried) :]
        is_room = self.has_room and length is not None
        pairs = zip(names, self.row_infos(length), strict=True)
        return [rx.Var(self.fresh("room") if is_room else name, info) for name, info in pairs]

    def row_infos(self, length: Any) -> list[StructInfo]:
        """Of all rows: rooms of this length, where there are rooms, or objects."""
        if length is None or not self.has_room:
            return [ObjectStructInfo()] * (len(self.hints) - 2 - len(self.carried))
        return [self.room_info(length, info) for info in self.rows]

    def room_info(self, length: Any, row: TensorStructInfo) -> StructInfo:
        """Of a room for so many rows."""
        return rx.tensor_info([length, *(d for _, d in v.axes_of(row))], row.dtype)

    def result_info(self, length: Any) -> StructInfo:
        """Of what the function gives: lengths that turns may change are not told."""
        carried: list[StructInfo] = [
            replace(info, shape=None, ndim=info.ndim) if open_ else info
            for info, open_ in zip(self.infos, self.open, strict=True)
        ]
        infos = (*carried, *self.row_infos(length))
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)

    def appended(self, rows: Any, row: Any, turn: Any) -> Any:
        """Rows and one more."""
        return self.packed("rows_append", rows, row)

    def put(self, room: Any, row: Any, turn: Any) -> Any:
        """A room with the row of a turn, written into it."""
        info = room.struct_info
        args: Any = (rx.ExternFunc("vm.builtin.rows_put"), room, row, turn)
        inplace = FrozenDict(inplace_indices=(0,))
        op = rx.Op("relax.call_inplace_packed")
        return self.values.bind(rx.Call(op, args, inplace, (info,), info, self.node.span))

    def widen(self, made: Sequence[Any]) -> bool:
        """Note the axes whose length a turn changes; whether there were new ones."""
        new = False
        for i, (x, old, open_) in enumerate(zip(made, self.infos, self.open, strict=True)):
            info = self.tensor(x, f"carried value {i}")
            if (info.dtype, info.ndim) != (old.dtype, old.ndim):
                self.node.refuse(
                    f"carried value {i} is {describe(old)} before a turn, {describe(info)} after it"
                )
            pairs = zip(v.axes_of(old), v.axes_of(info), strict=True)
            changed = {a for (a, was), (_, now) in pairs if not same_dim(was, now)} - open_
            open_ |= changed
            new = new or bool(changed)
        return new

    def again(self, turn: Any, condition: Any) -> Any:
        """Whether there is a turn of this number."""
        below = None if self.limit is None else self.call("relax.less", turn, self.limit)
        if condition is None or v.is_true(self.node, condition):
            if below is None:
                self.node.refuse(
                    f"it takes more than {MAX_TURNS} turns: there is no trip count, and its "
                    "condition always holds"
                )
            return below
        held = v.scalar(self.node, condition)
        return held if below is None else self.call("relax.logical_and", below, held)

    @property
    def has_one_room(self) -> bool:
        """Whether one room has the rows of all turns."""
        return self.has_room and self.length is not None

    # its call ------------------------------------------------------------------------------------

    def results(self) -> tuple[list[Any], list[Any]]:
        """What is carried in the end, and the rows along a first axis."""
        before = len(self.values.found_at_run_time)
        loop, function = self.function()
        inside = set(self.values.found_at_run_time[before:])
        self.walk.emitter.bindings.append(rx.VarBinding(loop, function))
        self.values.bound[loop] = function
        dims = [[d if v.is_known(d, inside) else None for _, d in v.axes_of(r)] for r in self.rows]
        pairs = list(zip(self.rows, dims, strict=True))
        empty = [self.no_rows(info, known) for info, known in pairs]
        args = (make_const(np.int64(0)), self.more, *self.carried, *empty)
        call = rx.Call(loop, args, None, (), None, self.node.span)
        found = self.values.bind(replace(call, struct_info=infer_call(call, {})))
        results = self.opened(found)
        rest = results[len(self.carried) :]
        if not self.has_one_room:
            rest = [self.stacked(r, *p) for r, p in zip(rest, pairs, strict=True)]
        return results[: len(self.carried)], rest

    def opened(self, found: rx.Var) -> list[Any]:
        """The results of the call, each with a shape."""
        known = [
            [None if a in open_ else d for a, d in v.axes_of(info)]
            for info, open_ in zip(self.infos, self.open, strict=True)
        ]
        count = len(self.carried) + len(self.rows)
        if count == 1:
            return [self.values.opened(found, *known)]
        made = self.values.opened(found, [*known, *[None] * len(self.rows)])
        return [self.node.emit(rx.TupleGetItem(made, i)) for i in range(count)]

    def no_rows(self, info: TensorStructInfo, known: Sequence[Any]) -> Any:
        """Rows, of which there are none yet; a length that only a turn tells is 0."""
        if self.has_one_room:
            shape = rx.ShapeExpr((v.as_size(self.length), *map(v.as_size, known)))
            return self.call("relax.zeros", shape, dtype=str(info.dtype))
        shape = rx.ShapeExpr(tuple(IntImm(v.INT64, 0) if d is None else d for d in known))
        return self.packed("rows", shape, rx.DataTypeImm(info.dtype))  # type: ignore[arg-type]

    def stacked(self, rows: Any, info: TensorStructInfo, known: Sequence[Any]) -> Any:
        """Rows as one tensor."""
        unknown = TensorStructInfo(dtype=info.dtype, ndim=info.ndim + 1)
        made = self.packed("rows_stack", rows, info=unknown)
        dims = [self.values.symbol() if d is None else d for d in (self.length, *known)]
        return self.values.cast(made, rx.tensor_info(dims, info.dtype))

    def packed(self, name: str, *args: Any, info: StructInfo | None = None) -> Any:
        """A call of one of the runtime's functions for rows (`runtime.builtin`)."""
        result = info or ObjectStructInfo()
        whole = (rx.ExternFunc(f"vm.builtin.{name}"), *args)
        call = rx.Call(
            rx.Op("relax.call_pure_packed"), whole, None, (result,), result, self.node.span
        )
        return self.values.bind(call)

    def call(self, name: str, *args: Any, **attrs: Any) -> Any:
        """A call of an operator, bound."""
        return v.call_op(self.node, name, *args, **attrs)
