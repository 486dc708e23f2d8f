"""Profiler: where the seconds of a search go.

with ms.Profiler() as profiler:
    ms.tune_tir(…)
print(profiler.table())
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_current: ContextVar[Profiler | None] = ContextVar("profiler", default=None)


class Profiler:
    """Seconds by name, of what runs inside its `with`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._start = self._total = 0.0

    def get(self) -> dict[str, float]:
        """Name -> seconds; "Total" is all of it."""
        return {**self._seconds, "Total": self._total}

    def table(self) -> str:
        """The same as text, the dearest first."""
        total = self._total or 1.0
        rows = sorted(self._seconds.items(), key=lambda pair: -pair[1])
        width = max((len(name) for name, _ in rows), default=5)
        lines = [f"{name:<{width}}  {s:8.3f} s  {s / total:6.1%}" for name, s in rows]
        return "\n".join([*lines, f"{'Total':<{width}}  {self._total:8.3f} s"])

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """What runs inside counts for that name, in the profiler around it if there is one."""
        profiler, start = _current.get(), time.perf_counter()
        try:
            yield
        finally:
            if profiler is not None:
                taken = time.perf_counter() - start
                profiler._seconds[name] = profiler._seconds.get(name, 0.0) + taken

    @staticmethod
    def current() -> Profiler | None:
        """The profiler around this, or None."""
        return _current.get()

    def __enter__(self) -> Profiler:
        self._token = _current.set(self)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_error: Any) -> None:
        self._total += time.perf_counter() - self._start
        _current.reset(self._token)
