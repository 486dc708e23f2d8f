"""Room for deep trees: Python's recursion limit raised while work on one is under way.

Calls between Python functions do not use the C stack (CPython 3.11 and newer), but properties and
generators do: 12,000 of them in each other filled the usual 8 MB. So the limit stays well below.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from mlcnb.core.errors import MLCError

P = ParamSpec("P")
T = TypeVar("T")

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


#: bytes of stack, and nested calls, where a tree is deeper than this thread has room for
_STACK, _LIMIT = 1 << 30, 150_000
_roomy = threading.local()


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: where the stack is too small, a function runs again on a thread with a large one.

    For functions that change nothing but what they return. Trees of 10,000 levels come from chains
    as people write them (`for …: x = x + a`).

    Raises:
        MLCError: even that is too small.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_roomy, "inside", False):
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except RecursionError:
            pass
        return with_room(partial(function, *args, **kwargs), function.__name__)

    return run


def with_room(function: Callable[[], T], name: str) -> T:
    """What a function returns, or raises, on a thread with a large stack.

    Raises:
        MLCError: even that is too small.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        _roomy.inside = True
        try:
            with deep(_LIMIT):
                results.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 (it is raised where it was waited for)
            errors.append(error)

    try:
        with _lock:
            before = threading.stack_size(_STACK)
            try:
                thread = threading.Thread(target=work, name="mlcnb-deep", daemon=True)
                thread.start()
            finally:
                threading.stack_size(before)
    except (RuntimeError, ValueError) as error:
        raise _too_deep(name) from error
    thread.join()
    if errors and isinstance(errors[0], RecursionError | MemoryError):
        raise _too_deep(name) from errors[0]
    if errors:
        raise errors[0]
    return results[0]


def _too_deep(name: str) -> MLCError:
    return MLCError(
        f"{name}: the program is nested too deep",
        hint="bind parts of deep expressions to variables, or build them by halves",
    )
