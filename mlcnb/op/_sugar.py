"""Functions under `relax.op` that are no operator of their own, or that ask for less than one.

@sugar("arange")
def arange(start, end=None, step=1, dtype=None): …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_functions: dict[str, Callable[..., Any]] = {}


def sugar(name: str) -> Callable[[F], F]:
    """Decorator: this function is `relax.op.<name>`, in place of one derived from a declaration."""

    def keep(fn: F) -> F:
        _functions[name] = fn
        return fn

    return keep


def functions() -> Mapping[str, Callable[..., Any]]:
    """All such functions, by name."""
    return _functions
