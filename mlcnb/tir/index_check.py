"""T.check_index: an index that is read from data, and the error where it lies outside.

    T.check_index(index, extent, where)                      FlattenBuffer's, of any access
    T.check_index(index, extent, where, counted, column)     an operator's, of its tensor of indices

Both are the index, unless it is outside of 0 … extent - 1: then the program stops. An operator's
check says which element of which tensor it was. `counted` is 1 where negative indices count from
the end, so that `index` had the extent added to it; `column` is the place in the last dimension
that all elements for this extent have, or -1 where all elements have the same extent.

    ExecutionError: take: indices[2, 7] is 1003, outside of -1000 to 999

A backend makes the message when it compiles (`message`), with marks where the numbers stand, and
fills it (`told`) when the program stopped: by the index and the extent that it left, and by the
arguments of the call, which are searched for the first element that is outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.tir.buffer import BufferLoad

#: where a message has the numbers
INDEX, EXTENT = "\x11", "\x12"
#: around what says where an operator's message has its element: "-" or "+", the column, the tensor
ELEMENT = "\x13"


class IndexCheckError(ExecutionError):
    """A check that failed in the reference interpreter: `tell` says where, with the arguments."""

    def __init__(self, text: str, fault: tuple[int, int]) -> None:
        super().__init__(told(text, fault))
        self.text, self.fault = text, fault

    def tell(self, arrays: Mapping[str, Any]) -> None:
        """Name the element, given the arguments of the program by name."""
        self.message = told(self.text, self.fault, arrays)
        self.args = (self.message,)


def checked(index: e.PrimExpr, extent: Any, where: str, column: int = -1) -> e.PrimExpr:
    """An operator's check of an index that may not be negative."""
    return _check(_wide(index), extent, where, 0, column)


def checked_from_end(index: e.PrimExpr, extent: Any, where: str, column: int = -1) -> e.PrimExpr:
    """An operator's check of an index that counts from the end where it is negative."""
    index = _wide(index)
    counted = p.if_then_else(index < 0, index + extent, index)
    return _check(counted, extent, where, 1, column)


def _wide(index: e.PrimExpr) -> e.PrimExpr:
    """Signed, and wide enough for an extent."""
    if index.dtype.is_uint:
        return p.cast("int64", index)
    return p.cast("int32", index) if index.dtype.bits < 32 else index


def _check(index: e.PrimExpr, extent: Any, where: str, counted: int, column: int) -> e.PrimExpr:
    at, size = p.as_int(index), p.as_int(extent)
    if at is not None and size is not None and 0 <= at < size:
        return index
    given = (index, p.cast(index.dtype, p.as_expr(extent)), e.StringImm(where))
    return e.Call(index.dtype, "tir.check_index", (*given, p.const(counted), p.const(column)))


def of_lanes(check: e.Call, active: e.PrimExpr) -> e.Call:
    """A check of a vector of indices, of the lanes that are active; the others count as 0 of 1.

    An extent that is known to hold an element stays one number for all lanes.
    """
    index, extent, *rest = check.args
    lanes = index.dtype.lanes
    index = e.Select(active, index, _splat(0, index.dtype, lanes))
    if (p.as_int(extent) or 0) < 1:
        wide = extent if extent.dtype.lanes == lanes else e.Broadcast(extent, lanes)
        extent = e.Select(active, wide, _splat(1, extent.dtype, lanes))
    return e.Call(check.dtype, check.op, (index, extent, *rest))


def _splat(number: int, kind: DType, lanes: int) -> e.PrimExpr:
    return e.Broadcast(p.const(number, kind.element), lanes)


def fitted(
    kind: DType, value: e.PrimExpr, where: str, bounds: tuple[float, float]
) -> e.PrimExpr | None:
    """An offset, stride or size, which is not negative, in a dtype that may be too narrow for it.

    Args:
        kind: the integer dtype wanted.
        value: computed in a dtype that holds it.
        where: what it is, for the message of the check.
        bounds: what is known of it, as `Analyzer.const_bounds` says.

    Returns:
        The value in `kind`: as it is where it surely fits, else checked when the program runs. None
        where it surely does not fit.
    """
    low, high = bounds
    if low > kind.max_value or high < kind.min_value:
        return None
    if kind.holds(low) and kind.holds(high):
        return p.cast(kind, value)
    room = p.const(kind.max_value + 1, value.dtype)
    return p.cast(kind, e.Call(value.dtype, "tir.check_index", (value, room, e.StringImm(where))))


def message(x: e.Call) -> str:
    """What a check says, with marks in place of the numbers."""
    _, _, *rest = x.args
    where = rest[0].value if rest and isinstance(rest[0], e.StringImm) else ""
    if len(rest) < 3:
        return f"{where}: index {INDEX} is outside of 0..{EXTENT}".removeprefix(": ")
    sources = {n.buffer.name for n in walk(x.args[0]) if isinstance(n, BufferLoad)}
    tensor = sources.pop() if len(sources) == 1 else ""
    sign = "-" if p.as_int(rest[1]) else "+"
    return f"{where}{ELEMENT}{sign}{p.as_int(rest[2])}:{tensor}{ELEMENT}"


def told(text: str, fault: tuple[int, int], arrays: Mapping[str, Any] | None = None) -> str:
    """A message with its numbers.

    Args:
        text: what `message` gave, or any other text, which stays as it is.
        fault: the index and the extent that the check met.
        arrays: the arguments of the program by name; the first element outside is looked for.
    """
    index, extent = fault
    if ELEMENT not in text:
        return text.replace(INDEX, str(index)).replace(EXTENT, str(extent))
    where, spec, _ = text.split(ELEMENT)
    column, tensor = spec[1:].split(":", 1)
    lowest = -extent if spec[0] == "-" else 0
    value = index - extent if lowest and index < 0 else index
    found = first_outside((arrays or {}).get(tensor), lowest, extent, int(column))
    if found is not None:
        place, value = found
        where += str(list(place)) if place else ""
    if extent == 0:
        return f"{where} is {value}, of a dimension that is empty"
    return f"{where} is {value}, outside of {lowest} to {extent - 1}"


def inside(
    indices: np.ndarray, lowest: int, extent: int, where: str, column: int = -1
) -> np.ndarray:
    """The indices (a column of them) counted from the front.

    Raises:
        ExecutionError: one is not within lowest … extent - 1.
    """
    wrong = complaint(indices, lowest, extent, where, column)
    if wrong:
        raise ExecutionError(wrong)
    seen = indices if column < 0 else indices[..., column]
    wide = seen.astype(np.int64)
    return np.where(wide < 0, wide + extent, wide)


def complaint(indices: np.ndarray, lowest: int, extent: int, where: str, column: int = -1) -> str:
    """What is wrong with indices (with a column of them); "" if all are inside."""
    if first_outside(indices, lowest, extent, column) is None:
        return ""
    text = f"{where}{ELEMENT}{'-' if lowest else '+'}{column}:indices{ELEMENT}"
    return told(text, (0, extent), {"indices": indices})


def first_outside(
    array: Any, lowest: int, extent: int, column: int
) -> tuple[tuple[int, ...], int] | None:
    """(place, value) of the first element that is not within lowest … extent - 1, if one is."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        return None
    seen = array if column < 0 else array[..., column]
    outside = np.flatnonzero((seen < lowest) | (seen >= extent))
    if not outside.size:
        return None
    place = tuple(int(i) for i in np.unravel_index(outside[0], seen.shape))
    return place + (() if column < 0 else (column,)), int(seen[place])
