"""Integer expressions for many iterations at once.

    evaluate(i * 4 + j, {i: [0, 0, 1, 1], j: [0, 1, 0, 1]})  =  [0, 1, 4, 5]

A number, an array with one value for each iteration, or, of a vector, a matrix with a column for
each lane. Values that leave their dtype would wrap around: they are not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.ir import expr as e
from mlcnb.ir.folding import COMPARISONS, DIVISIONS, NUMBERS

#: variable -> value in each iteration; None where it is read from memory
Frame = dict[e.Var, Any]
_REFUSE = object()


class Unknown(Exception):
    """It depends on values in memory, or on arithmetic that only the interpreter does."""


def evaluate(x: Any, frame: Frame, otherwise: Any = _REFUSE) -> Any:
    """The value of an expression.

    Args:
        x: an expression of integers and conditions.
        frame: values of its variables.
        otherwise: given for a value that is not known.

    Raises:
        Unknown: it is not known, and there is no `otherwise`.
    """
    try:
        return _value(x, frame)
    except Unknown:
        if otherwise is _REFUSE:
            raise
        return otherwise


def _value(x: Any, frame: Frame) -> Any:
    handler = _EVALUATE.get(type(x))
    if handler is None:
        raise Unknown(type(x).__name__)
    return handler(x, frame)


def _variable(x: e.Var, frame: Frame) -> Any:
    found = frame.get(x)
    if found is None:
        raise Unknown(x.name)
    return found


def _binary(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Frame], Any]:
    def run(x: Any, frame: Frame) -> Any:
        if x.a.dtype.is_float:
            raise Unknown("arithmetic on floats")
        found = fn(*_aligned([_value(x.a, frame), _value(x.b, frame)]))
        return found if x.dtype.is_bool else _inside(x, found)

    return run


def _divided(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Frame], Any]:
    def run(a: Any, b: Any) -> Any:
        if not np.all(b):
            raise Unknown("a division by zero")
        return fn(a, b)

    return _binary(run)


def _inside(x: Any, found: Any) -> Any:
    """What is found, if it fits its dtype."""
    kind = x.dtype.element
    if kind.is_float:
        raise Unknown("arithmetic on floats")
    low, high = (found, found) if isinstance(found, int) else _ends(found)
    if low < kind.min_value or high > kind.max_value:
        raise Unknown("arithmetic that wraps around")
    return found


def _ends(found: Any) -> tuple[int, int]:
    return (int(np.min(found)), int(np.max(found))) if np.size(found) else (0, 0)


def _aligned(parts: list[Any]) -> list[Any]:
    """Values of vectors have a column for each lane: those of numbers get one for all lanes."""
    if all(np.ndim(p) < 2 for p in parts):
        return parts
    return [p[:, None] if np.ndim(p) == 1 else p for p in parts]


def _truncated(a: Any, b: Any) -> Any:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def _negation(x: e.Not, frame: Frame) -> Any:
    found = _value(x.a, frame)
    return not found if isinstance(found, bool | int) else np.logical_not(found)


def _chosen(condition: Any, yes: Any, no: Any, frame: Frame) -> Any:
    found = _value(condition, frame)
    if np.ndim(found) == 0:
        return _value(yes if found else no, frame)
    return np.where(*_aligned([found, _value(yes, frame), _value(no, frame)]))


def _call(x: e.Call, frame: Frame) -> Any:
    match x.op:
        case "tir.if_then_else":
            return _chosen(x.args[0], x.args[1], x.args[2], frame)
        case "tir.likely":
            return _value(x.args[0], frame)
        case "tir.shift_left":
            return _inside(x, _aligned_call(np.left_shift, x, frame))
        case "tir.shift_right":
            return _aligned_call(np.right_shift, x, frame)
        case "tir.bitwise_and" | "tir.bitwise_or" | "tir.bitwise_xor":
            return _aligned_call(getattr(np, x.op.removeprefix("tir.")), x, frame)
    raise Unknown(str(x.op))


def _aligned_call(fn: Any, x: e.Call, frame: Frame) -> Any:
    if not all(arg.dtype.element.is_int for arg in x.args):
        raise Unknown(str(x.op))
    return fn(*_aligned([_value(arg, frame) for arg in x.args]))


def _cast(x: e.Cast, frame: Frame) -> Any:
    found = _value(x.value, frame)
    if x.dtype.is_bool:
        return bool(found) if np.ndim(found) == 0 else found != 0
    found = int(found) if isinstance(found, bool) else found
    return _inside(x, found.astype(np.int64) if isinstance(found, np.ndarray) else found)


def _ramp(x: e.Ramp, frame: Frame) -> Any:
    base, step = (np.reshape(_value(n, frame), (-1, 1)) for n in (x.base, x.stride))
    return _inside(x, base + step * np.arange(x.lanes))


def _broadcast(x: e.Broadcast, frame: Frame) -> Any:
    if x.value.dtype.lanes != 1:
        raise Unknown("a broadcast vector")
    return np.repeat(np.reshape(_value(x.value, frame), (-1, 1)), x.lanes, axis=1)


_EVALUATE: dict[type, Callable[[Any, Frame], Any]] = {
    e.IntImm: lambda x, _frame: bool(x.value) if x.dtype.is_bool else x.value,
    e.Var: _variable,
    e.SizeVar: _variable,
    **{k: _binary(NUMBERS[k]) for k in (e.Add, e.Sub, e.Mul, *COMPARISONS)},
    **{k: _divided(NUMBERS[k]) for k in DIVISIONS},
    e.Div: _divided(_truncated),
    e.Mod: _divided(lambda a, b: a - _truncated(a, b) * b),
    e.Min: _binary(np.minimum),
    e.Max: _binary(np.maximum),
    e.And: _binary(np.logical_and),
    e.Or: _binary(np.logical_or),
    e.Not: _negation,
    e.Select: lambda x, frame: _chosen(x.condition, x.true_value, x.false_value, frame),
    e.Call: _call,
    e.Cast: _cast,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Let: lambda x, frame: _value(x.body, {**frame, x.var: _value(x.value, frame)}),
}
