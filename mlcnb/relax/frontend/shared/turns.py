"""Loops: written out where the turns are known at import, else a local function that calls itself.

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
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import IntImm
from mlcnb.relax.analysis.struct_info import same_dim, symbolic_vars
from mlcnb.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    Op,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    tensor_info,
)
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.shared.limits import MAX_TURNS
from mlcnb.relax.frontend.shared.values import sequence
from mlcnb.relax.infer import infer_call
from mlcnb.relax.operator import declaration, make_call
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    describe,
)

_INT64 = dtype("int64")
Walk = Any  # an importer: its emitter gets the bindings, and `open_axes` keeps what loops found out
Node = Any  # what an importer makes of a loop's node: names, `emit`, `known`, `refuse`, `unknown`
#: (turn, carried values) -> (condition or None, carried values, rows): a body written once
Step = Callable[[Any, list[Any]], tuple[Any, list[Any], list[Any]]]


def turns_of(
    walk: Walk,
    node: Node,
    step: Step,
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
    found = _written_out(walk, node, step, carried, count, limit, going)
    if found is None:
        limit = None if limit is None else scalar(node, limit)
        more = _first(node, limit, going)
        found = Turns(walk, node, step, carried, count, more, limit, length).results()
    return found


def slices_at(node: Node, tensors: Sequence[Any], axes: Sequence[int], at: Sequence[Any]) -> list:
    """A slice of each tensor along its axis, at an int64 scalar."""
    found = zip(tensors, axes, at, strict=True)
    return [_call(node, "relax.take", x, i, axis=a, mode="fast") for x, a, i in found]


def size_tensor(node: Node, size: Any) -> Any:
    """A size as an int64 scalar that the model computes with."""
    if isinstance(size, int):
        return make_const(np.int64(size))
    listed = _call(node, "relax.shape_to_tensor", ShapeExpr((size,)))
    return _call(node, "relax.reshape", listed, ())


def scalar(node: Node, x: Any) -> Any:
    """A tensor of one element without dimensions."""
    info = x.struct_info
    if isinstance(info, TensorStructInfo) and info.ndim > 0:
        return node.emit(make_call(declaration("relax.reshape"), x, ()))
    return x


def is_true(node: Node, condition: Any) -> bool:
    """True for a condition that is known to hold."""
    known = node.known(condition)
    return known is not None and known.dtype != object and bool(known.all())


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
        walk: Walk,
        node: Node,
        step: Step,
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
        fresh = walk.emitter.names.fresh
        self.name = fresh("loop")
        hints = ("turn", "more", *("carried" for _ in carried), *("rows" for _ in range(count)))
        self.hints = [fresh(h) for h in hints]

    def tensor(self, x: Any, what: str) -> TensorStructInfo:
        """The struct info of a value that is a tensor of known rank."""
        info: Any = getattr(x, "struct_info", None)
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
            told = isinstance(self.more, Constant)
            self.node.unknown(
                Tuple(tuple(self.carried)) if told else self.more,
                "the number of turns is not known before the model runs, and its "
                f"{what} is no tensor of so many dimensions",
            )
        return TensorStructInfo(info.shape, info.dtype)

    # the function --------------------------------------------------------------------------------

    def function(self) -> tuple[Var, Function]:
        """The function and its variable: the body is written until it fits what it is given."""
        found = self.attempt()
        while found is None:
            found = self.attempt()
        return found

    def attempt(self) -> tuple[Var, Function] | None:
        """The function, or None where a turn changes a length that was taken for fixed."""
        pairs = zip(self.hints, self.parameter_infos(), strict=True)
        turn, more, *given = (Var(name, info) for name, info in pairs)
        values, kept = given[: len(self.carried)], given[len(self.carried) :]
        infos = tuple(p.struct_info for p in (turn, more, *given))
        ret = self.result_info(len(kept))
        loop = Var(self.name, FuncStructInfo(infos, ret))  # type: ignore[arg-type]
        with self.walk.emitter.scope(False) as bindings:
            condition, made, rows = self.step(turn, values)
            if self.widen(made):
                return None
            self.rows = [self.tensor(x, f"row {i}") for i, x in enumerate(rows)]
            after = self.call("relax.add", turn, make_const(np.int64(1)))
            again = self.again(after, condition)
            longer = [self.packed("rows_append", k, x) for k, x in zip(kept, rows, strict=True)]
            last = Call(loop, (after, again, *made, *longer), None, (), ret, self.node.span)
            taken = sequence(bindings, self.values.bind(last))
        choice = If(more, taken, SeqExpr((), _one(given)), ret)
        result = Var(self.walk.emitter.names.fresh("lv"), ret)
        body = SeqExpr((BindingBlock((VarBinding(result, choice),)),), result)
        return loop, Function((turn, more, *given), body, ret, True, FrozenDict())

    def parameter_infos(self) -> list[StructInfo]:
        """Of the turn, whether it is one, what is carried, rows."""
        carried = [
            tensor_info([self.values.symbol() if a in open_ else d for a, d in _axes(i)], i.dtype)
            for i, open_ in zip(self.infos, self.open, strict=True)
        ]
        rows = len(self.hints) - 2 - len(carried)
        objects = [ObjectStructInfo()] * rows
        return [tensor_info((), "int64"), tensor_info((), "bool"), *carried, *objects]

    def result_info(self, rows: int) -> StructInfo:
        """Of what the function gives: lengths that turns may change are not told."""
        carried: list[StructInfo] = [
            replace(info, shape=None, ndim=info.ndim) if open_ else info
            for info, open_ in zip(self.infos, self.open, strict=True)
        ]
        infos = (*carried, *[ObjectStructInfo()] * rows)
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)

    def widen(self, made: Sequence[Any]) -> bool:
        """Note the axes whose length a turn changes; whether there were new ones."""
        new = False
        for i, (x, old, open_) in enumerate(zip(made, self.infos, self.open, strict=True)):
            info = self.tensor(x, f"carried value {i}")
            if (info.dtype, info.ndim) != (old.dtype, old.ndim):
                self.node.refuse(
                    f"carried value {i} is {describe(old)} before a turn, {describe(info)} after it"
                )
            pairs = zip(_axes(old), _axes(info), strict=True)
            changed = {a for (a, was), (_, now) in pairs if not same_dim(was, now)} - open_
            open_ |= changed
            new = new or bool(changed)
        return new

    def again(self, turn: Any, condition: Any) -> Any:
        """Whether there is a turn of this number."""
        below = None if self.limit is None else self.call("relax.less", turn, self.limit)
        if condition is None or is_true(self.node, condition):
            if below is None:
                self.node.refuse(
                    f"it takes more than {MAX_TURNS} turns: there is no trip count, and its "
                    "condition always holds"
                )
            return below
        held = scalar(self.node, condition)
        return held if below is None else self.call("relax.logical_and", below, held)

    # its call ------------------------------------------------------------------------------------

    def results(self) -> tuple[list[Any], list[Any]]:
        """What is carried in the end, and the rows along a first axis."""
        before = len(self.values.found_at_run_time)
        loop, function = self.function()
        inside = set(self.values.found_at_run_time[before:])
        self.walk.emitter.bindings.append(VarBinding(loop, function))
        self.values.bound[loop] = function
        dims = [[d if _known(d, inside) else None for _, d in _axes(r)] for r in self.rows]
        pairs = list(zip(self.rows, dims, strict=True))
        empty = [self.no_rows(info, known) for info, known in pairs]
        args = (make_const(np.int64(0)), self.more, *self.carried, *empty)
        call = Call(loop, args, None, (), None, self.node.span)
        found = self.values.bind(replace(call, struct_info=infer_call(call, {})))
        results = self.opened(found)
        rest = results[len(self.carried) :]
        rows = [self.stacked(r, *p) for r, p in zip(rest, pairs, strict=True)]
        return results[: len(self.carried)], rows

    def opened(self, found: Var) -> list[Any]:
        """The results of the call, each with a shape."""
        known = [
            [None if a in open_ else d for a, d in _axes(info)]
            for info, open_ in zip(self.infos, self.open, strict=True)
        ]
        count = len(self.carried) + len(self.rows)
        if count == 1:
            return [self.values.opened(found, *known)]
        made = self.values.opened(found, [*known, *[None] * len(self.rows)])
        return [self.node.emit(TupleGetItem(made, i)) for i in range(count)]

    def no_rows(self, info: TensorStructInfo, known: Sequence[Any]) -> Any:
        """Rows, of which there are none yet; a length that only a turn tells is 0."""
        shape = ShapeExpr(tuple(IntImm(_INT64, 0) if d is None else d for d in known))
        return self.packed("rows", shape, DataTypeImm(info.dtype))  # type: ignore[arg-type]

    def stacked(self, rows: Any, info: TensorStructInfo, known: Sequence[Any]) -> Any:
        """Rows as one tensor."""
        unknown = TensorStructInfo(dtype=info.dtype, ndim=info.ndim + 1)
        made = self.packed("rows_stack", rows, info=unknown)
        dims = [self.values.symbol() if d is None else d for d in (self.length, *known)]
        return self.values.cast(made, tensor_info(dims, info.dtype))

    def packed(self, name: str, *args: Any, info: StructInfo | None = None) -> Any:
        """A call of one of the runtime's functions for rows (`runtime.builtin`)."""
        result = info or ObjectStructInfo()
        whole = (ExternFunc(f"vm.builtin.{name}"), *args)
        call = Call(Op("relax.call_pure_packed"), whole, None, (result,), result, self.node.span)
        return self.values.bind(call)

    def call(self, name: str, *args: Any) -> Any:
        """A call of an operator, bound."""
        return self.node.emit(make_call(declaration(name), *args))


def _axes(info: TensorStructInfo) -> list[tuple[int, Any]]:
    return list(enumerate(info.dims or ()))


def _known(dim: Any, inside: Collection[Any]) -> bool:
    """True for a dimension that speaks of no symbol that is met inside of the function."""
    return not any(v in inside for v in symbolic_vars(ShapeExpr((dim,))))


def _one(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def _first(node: Node, limit: Any, going: Any) -> Any:
    """Whether there is a first turn."""
    some = None if limit is None else _call(node, "relax.less", make_const(np.int64(0)), limit)
    parts = [some, None if going is None else scalar(node, going)]
    given = [p for p in parts if p is not None and not is_true(node, p)]
    if len(given) == 2:
        return _call(node, "relax.logical_and", *given)
    return given[0] if given else make_const(True)


def _written_out(
    walk: Walk, node: Node, step: Step, carried: list[Any], count: int, limit: Any, going: Any
) -> tuple[list[Any], list[Any]] | None:
    """The loop turn by turn: what is carried in the end, and `count` tensors of rows.

    None where the turns are not known, or too many; or where there is none that tells what a row
    would be.
    """
    turns = MAX_TURNS + 1 if limit is None else _number_known(node, limit)
    if turns is None or (limit is not None and turns > MAX_TURNS) or (turns < 1 and count):
        return None
    rows: list[list[Any]] = [[] for _ in range(count)]
    with walk.emitter.scope(False) as bindings:
        for turn in range(turns):
            known = True if going is None else _number_known(node, going)
            if known is None or turn == MAX_TURNS:
                return None
            if not known:
                break
            going, carried, made = step(make_const(np.int64(turn)), carried)
            for kept, value in zip(rows, made, strict=True):
                kept.append(value)
        if not all(rows):
            return None
        stacked = [_stacked(node, r) for r in rows]
    walk.emitter.bindings.extend(bindings)
    return carried, stacked


def _number_known(node: Node, x: Any) -> int | None:
    """The value of a scalar, where it is a number that is known."""
    found = node.known(x)
    return None if found is None or found.dtype == object or found.size != 1 else found.item()


def _call(node: Node, name: str, *args: Any, **attrs: Any) -> Any:
    return node.emit(make_call(declaration(name), *args, **attrs))


def _stacked(node: Node, rows: list[Any]) -> Any:
    return _call(node, "relax.stack", rows, axis=0)
