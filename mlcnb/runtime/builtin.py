"""Functions that exported modules call by name: caches that grow, and what prints while it runs.

vm.builtin.attention_kv_cache_create(rows, shape, filled)    a cache with room for `rows`
vm.builtin.attention_kv_cache_append(cache, rows)            the same cache, with more rows
vm.builtin.attention_kv_cache_view(cache, shape)             its rows, as an array
vm.builtin.invoke_debug_func(io, name, line, *args)          name(line, *args), then io
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.core.registry import get_global_func, register_func


class RowCache:
    """Rows of one shape and dtype, in memory that doubles when it is full.

    rows: of the first room; filled: how many of them are there already.
    """

    def __init__(self, rows: np.ndarray, filled: int) -> None:
        self._rows = np.array(rows)
        self.filled = filled

    def append(self, rows: np.ndarray) -> None:
        """Put rows at the end: (n, *shape of a row), or one row."""
        unit = self._rows.shape[1:]
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


def _create(rows: np.ndarray, shape: tuple[int, ...], filled: int) -> RowCache:
    return RowCache(np.asarray(rows).reshape(shape), int(filled))


def _append(cache: RowCache, rows: np.ndarray) -> RowCache:
    cache.append(np.asarray(rows))
    return cache


def _view(cache: RowCache, shape: tuple[int, ...]) -> np.ndarray:
    return cache.view(shape)


def _invoke(io: Any, name: str, line: str, *args: Any) -> Any:
    function = get_global_func(name)
    assert function is not None
    function(line, *args)
    return io


def _print(line: str, value: Any) -> None:
    shape, kind = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    print(f"{line}: shape = {tuple(shape)}, dtype = {kind}, data =\n{value}")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "attention_kv_cache_create": _create,
    "attention_kv_cache_append": _append,
    "attention_kv_cache_view": _view,
    "invoke_debug_func": _invoke,
    "debug_print": _print,
}


def register() -> None:
    """Make them known under `vm.builtin.`; what a person has put there stays."""
    for name, function in _FUNCTIONS.items():
        if get_global_func(f"vm.builtin.{name}", allow_missing=True) is None:
            register_func(f"vm.builtin.{name}", function)
