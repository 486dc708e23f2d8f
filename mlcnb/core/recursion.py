"""Room for deep trees: Python's recursion limit raised while work on one is under way.

Calls between Python functions do not use the C stack (CPython 3.11 and newer), but properties and
generators do: 12,000 of them in each other filled the usual 8 MB. So the limit stays well below.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside: list[int] = []
_before = 0


@contextmanager
def deep(limit: int = 5_000) -> Iterator[None]:
    """At least `limit` nested calls inside; the old limit returns with the last user."""
    global _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
        _inside.append(limit)
        sys.setrecursionlimit(max(_before, *_inside))
    try:
        yield
    finally:
        with _lock:
            _inside.remove(limit)
            if not _inside:
                sys.setrecursionlimit(_before)
