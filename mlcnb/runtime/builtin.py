"""Functions that exported modules call by name: caches that grow, and what prints while it runs.

vm.builtin.attention_kv_cache_create(rows, shape, filled)    a cache with room for `rows`
vm.builtin.attention_kv_cache_append(cache, rows)            the same cache, with more rows
vm.builtin.attention_kv_cache_view(cache, shape)             its rows, as an array
vm.builtin.rows(shape, dtype)                                no rows yet, each to be of this shape
vm.builtin.rows_append(rows, row)                            these rows and one more
vm.builtin.rows_room(*rows)                                  arrays for some more of each
vm.builtin.rows_put(room, row, turn)                         the room with a turn's row, in place
vm.builtin.rows_extend(rows, room, turn)                     these rows and those up to a turn
vm.builtin.rows_stack(rows)                                  all of them, as one array
vm.builtin.invoke_debug_func(io, name, line, *args)          name(line, *args), then io
vm.builtin.tuple_reset_item(values, i)                       values[i] is not read again
vm.builtin.shape_of(x), copy(x), reshape(x, shape)           of a tensor
vm.builtin.alloc_storage(vm, size, device, dtype, scope)     memory for `size` elements
vm.builtin.alloc_tensor(storage, offset, shape, dtype)       a tensor in it, `offset` bytes on
vm.builtin.make_closure(f, *known)                           f with its first arguments
vm.builtin.invoke_closure(vm, f, *args)                      f(*args)

A cache is one thing that grows; rows are values: what was appended to is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.core.registry import get_global_func, register_func
from mlcnb.ir.dtype import dtype
from mlcnb.op.vm import VMAllocStorage, VMAllocTensor
from mlcnb.runtime import shape_builtin
from mlcnb.runtime.shape_tuple import ShapeTuple
from mlcnb.runtime.tensor import as_array


class RowCache:
    """Rows of one shape and dtype, in memory that doubles when it is full.

    rows: of the first room; filled: how many of them are there already.
    """

    def __init__(self, rows: np.ndarray, filled: int) -> None:
        self._rows = np.array(rows)
        self.filled = filled

    @property
    def unit(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self._rows.shape[1:]

    def append(self, rows: np.ndarray) -> None:
        """Put rows at the end: (n, *shape of a row), or one row."""
        unit = self.unit
        new = rows.reshape(1, *unit) if rows.shape == unit else rows
        if new.shape[1:] != unit or new.dtype != self._rows.dtype:
            raise ExecutionError(
                f"a cache of rows {unit} {self._rows.dtype} is given {rows.shape} {rows.dtype}"
            )
        end = self.filled + len(new)
        if end > len(self._rows):
            room = np.zeros((max(end, 2 * len(self._rows)), *unit), self._rows.dtype)
            room[: self.filled] = self._rows[: self.filled]
            self._rows = room
        self._rows[self.filled : end] = new
        self.filled = end

    def view(self, shape: tuple[int, ...]) -> np.ndarray:
        """A copy of the rows as `shape`, which has as many elements as there are."""
        rows = self._rows[: self.filled]
        if rows.size != int(np.prod(shape, dtype=np.int64)):
            raise ExecutionError(
                f"a cache of {self.filled} rows {rows.shape[1:]} is looked at as {tuple(shape)}"
            )
        return rows.reshape(shape).copy()

    def __repr__(self) -> str:
        return f"RowCache({self.filled} rows {self._rows.shape[1:]}, {self._rows.dtype})"


class Rows:
    """Rows that a loop has made so far, in room that all that come of one beginning share.

    A new row goes behind the last one in the same room, where that is free, else in a copy.

    Args:
        shape, dtype: of a row, where there is none yet; an open dimension is 0.
        cache: the room; count: how many of its rows are these.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, cache: RowCache | None = None, count: int = 0
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.cache, self.count = cache, count

    def append(self, row: np.ndarray) -> Rows:
        """These rows and one more.

        Raises:
            ExecutionError: it is not of the shape of those before.
        """
        cache = self.cache or RowCache(np.empty((_ROOM, *row.shape), row.dtype), 0)
        if row.shape != cache.unit:
            raise ExecutionError(
                f"turn {self.count} of a loop adds a row of shape {row.shape}, turns before added "
                f"{cache.unit}"
            )
        if cache.filled != self.count:
            cache = RowCache(self.stack(), self.count)
        cache.append(row[np.newaxis])
        return Rows(self.shape, self.dtype, cache, self.count + 1)

    def extend(self, room: np.ndarray, turn: int) -> Rows:
        """These rows and the first of a room, so many that there are `turn`."""
        new = turn - self.count
        cache = self.cache or RowCache(np.empty((_ROOM, *room.shape[1:]), room.dtype), 0)
        if cache.filled != self.count:
            cache = RowCache(self.stack(), self.count)
        cache.append(room[:new])
        return Rows(self.shape, self.dtype, cache, turn)

    def stack(self) -> np.ndarray:
        """The rows as one array, (count, *shape of a row)."""
        if self.cache is None:
            return np.empty((0, *self.shape), self.dtype)
        return self.cache.view((self.cache.filled, *self.cache.unit))[: self.count]


#: rows that there is room for at first
_ROOM = 4
#: rows of a room, and bytes that these take unless they are few
_MOST_TURNS, _ROOM_BYTES = 256, 1 << 18


def _rows(shape: tuple[int, ...], kind: str) -> Rows:
    return Rows(tuple(shape), dtype(kind).numpy)


def _rows_append(rows: Rows, row: np.ndarray) -> Rows:
    return rows.append(as_array(row, "a row"))


def _rows_room(*rows: Rows) -> tuple[np.ndarray, ...]:
    """Memory for the rows of so many turns as fit into a part of a core's cache."""
    bytes_a_turn = sum(int(np.prod(r.shape, dtype=np.int64)) * r.dtype.itemsize for r in rows)
    turns = min(max(_ROOM_BYTES // max(bytes_a_turn, 1), _ROOM), _MOST_TURNS)
    return tuple(np.empty((turns, *r.shape), r.dtype) for r in rows)


def _rows_put(room: np.ndarray, row: np.ndarray, turn: np.ndarray) -> np.ndarray:
    room[int(turn) % len(room)] = row if type(row) is type(room) else as_array(row, "a row")
    return room


def _rows_extend(rows: Rows, room: np.ndarray, turn: np.ndarray) -> Rows:
    return rows.extend(as_array(room, "rows"), int(turn))


def _create(rows: np.ndarray, shape: tuple[int, ...], filled: int) -> RowCache:
    return RowCache(np.asarray(rows).reshape(shape), int(filled))


def _append(cache: RowCache, rows: np.ndarray) -> RowCache:
    cache.append(np.asarray(rows))
    return cache


def _invoke(io: Any, name: str, line: str, *args: Any) -> Any:
    function = get_global_func(name)
    assert function is not None
    function(line, *args)
    return io


def _print(line: str, value: Any) -> None:
    shape, kind = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    print(f"{line}: shape = {tuple(shape)}, dtype = {kind}, data =\n{value}")


def _reset_item(values: tuple[Any, ...], index: int) -> tuple[()]:
    """Nothing: tuples do not change, an array goes with the last who holds it."""
    if not 0 <= index < len(values):
        raise ExecutionError(f"tuple_reset_item: there is no item {index} of {len(values)}")
    return ()


def _reshape(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = as_array(x, "reshape")
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise ExecutionError(f"reshape: {array.shape} does not fit {tuple(shape)}")
    return array.reshape(shape)


def _alloc_storage(_vm: Any, size: Any, device: Any, kind: Any, scope: Any = "global") -> Any:
    nbytes = (*size, dtype(str(kind)).numpy.itemsize)
    return VMAllocStorage().numpy(nbytes, device, kind, scope)


def _alloc_tensor(storage: Any, offset: int, shape: tuple[int, ...], kind: Any) -> Any:
    return VMAllocTensor().numpy(storage, offset, shape, str(kind))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "attention_kv_cache_create": _create,
    "attention_kv_cache_append": _append,
    "attention_kv_cache_view": RowCache.view,
    "rows": _rows,
    "rows_append": _rows_append,
    "rows_room": _rows_room,
    "rows_put": _rows_put,
    "rows_extend": _rows_extend,
    "rows_stack": Rows.stack,
    "invoke_debug_func": _invoke,
    "debug_print": _print,
    **shape_builtin.FUNCTIONS,
    "tuple_reset_item": _reset_item,
    "shape_of": lambda x: ShapeTuple(np.shape(as_array(x, "shape_of"))),
    "copy": lambda x: np.array(as_array(x, "copy")),
    "reshape": _reshape,
    "alloc_storage": _alloc_storage,
    "alloc_tensor": _alloc_tensor,
    "make_closure": partial,
    "invoke_closure": lambda _vm, function, *args: function(*args),
}


def register() -> None:
    """Make them known under `vm.builtin.`; what a person has put there stays."""
    for name, function in _FUNCTIONS.items():
        if get_global_func(f"vm.builtin.{name}", allow_missing=True) is None:
            register_func(f"vm.builtin.{name}", function)
