"""What the loops of both importers are made of: a turn, sizes as tensors, scalars, conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.node import FrozenDict
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import IntImm
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.expr import BindingBlock, Function, If, SeqExpr, ShapeExpr, Tuple, Var, VarBinding
from mlcnb.relax.expr import const as make_const
from mlcnb.relax.frontend.shared.limits import MAX_TURNS
from mlcnb.relax.operator import declaration, make_call
from mlcnb.relax.struct_info import FuncStructInfo, StructInfo, TensorStructInfo

INT64 = dtype("int64")
Walk = Any  # an importer: its emitter gets the bindings, and `open_axes` keeps what loops found out
Node = Any  # what an importer makes of a loop's node: names, `emit`, `known`, `refuse`, `unknown`
#: (turn, carried values) -> (condition or None, carried values, rows): a body written once
Step = Callable[[Any, list[Any]], tuple[Any, list[Any], list[Any]]]


class Turn(NamedTuple):
    """One turn, written once.

    number: of the turn; values: what is carried into it; bindings: its body, after which `after` is
    the next number, `again` whether there is a turn of it, `made` what is carried, `rows` its rows.
    """

    number: Var
    values: list[Var]
    bindings: list[Any]
    after: Any
    again: Any
    made: Sequence[Any]
    rows: Sequence[Any]


def size_tensor(node: Node, size: Any) -> Any:
    """A size as an int64 scalar that the model computes with."""
    if isinstance(size, int):
        return make_const(np.int64(size))
    listed = call_op(node, "relax.shape_to_tensor", ShapeExpr((size,)))
    return call_op(node, "relax.reshape", listed, ())


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


def call_op(node: Node, name: str, *args: Any, **attrs: Any) -> Any:
    """A call of an operator, as a leaf."""
    return node.emit(make_call(declaration(name), *args, **attrs))


def axes_of(info: TensorStructInfo) -> list[tuple[int, Any]]:
    """Each dimension with its number."""
    return list(enumerate(info.dims or ()))


def as_size(dim: Any) -> Any:
    """A dimension as an expression."""
    return IntImm(INT64, dim) if isinstance(dim, int) else dim


def is_known(dim: Any, inside: Collection[Any]) -> bool:
    """True for a dimension that speaks of no symbol that is met inside of the function."""
    return not any(v in inside for v in symbolic_vars(ShapeExpr((dim,))))


def one_or_tuple(values: Sequence[Any]) -> Any:
    """A value, or the tuple of several."""
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def slices_at(node: Node, tensors: Sequence[Any], axes: Sequence[int], at: Sequence[Any]) -> list:
    """A slice of each tensor along its axis, at an int64 scalar."""
    found = zip(tensors, axes, at, strict=True)
    return [call_op(node, "relax.take", x, i, axis=a, mode="fast") for x, a, i in found]


def first_turn(node: Node, limit: Any, going: Any) -> Any:
    """Whether there is a first turn."""
    some = None if limit is None else call_op(node, "relax.less", make_const(np.int64(0)), limit)
    parts = [some, None if going is None else scalar(node, going)]
    given = [p for p in parts if p is not None and not is_true(node, p)]
    if len(given) == 2:
        return call_op(node, "relax.logical_and", *given)
    return given[0] if given else make_const(True)


def written_out(
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
        stacked = [call_op(node, "relax.stack", r, axis=0) for r in rows]
    walk.emitter.bindings.extend(bindings)
    return carried, stacked


def _number_known(node: Node, x: Any) -> int | None:
    """The value of a scalar, where it is a number that is known."""
    found = node.known(x)
    return None if found is None or found.dtype == object or found.size != 1 else found.item()


def function_info(params: Sequence[Any], ret: StructInfo) -> FuncStructInfo:
    """Of a function with these parameters."""
    return FuncStructInfo(tuple(p.struct_info for p in params), ret)


def choice(name: str, params: Any, more: Var, taken: Any, left: Any, ret: StructInfo) -> Function:
    """A function whose body is one If, bound to a variable of this name."""
    result = Var(name, ret)
    chosen = If(more, taken, SeqExpr((), left), ret)
    body = SeqExpr((BindingBlock((VarBinding(result, chosen),)),), result)
    return Function(tuple(params), body, ret, True, FrozenDict())
