"""Functions under `relax.op` that are no operator of their own, or that ask for less than one.

@sugar("arange")
def arange(start, end=None, step=1, dtype=None): …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from mlcnb.relax.operands import OF_ANOTHER_KIND, first_by_name, of_another_kind

F = TypeVar("F", bound=Callable[..., Any])
_functions: dict[str, Callable[..., Any]] = {}


def sugar(name: str) -> Callable[[F], F]:
    """Decorator: this function is `relax.op.<name>`, in place of one derived from a declaration."""

    def keep(fn: F) -> F:
        _functions[name] = _telling(name, fn)
        return fn

    return keep


def _telling(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which says so of an argument of another kind than it takes."""

    names = tuple(signature(fn).parameters)

    @wraps(fn)
    def told(*args: Any, **options: Any) -> Any:
        try:
            return fn(*args, **first_by_name(options, names, names[: len(args)]))
        except OF_ANOTHER_KIND as error:
            if (said := of_another_kind(name, error, f"{name}{signature(fn)}")) is None:
                raise
            raise said from error

    return told


def functions() -> Mapping[str, Callable[..., Any]]:
    """All such functions, by name."""
    return _functions
