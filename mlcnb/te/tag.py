"""tag_scope: a tag for all tensors that are made inside.

with te.tag_scope(tag="injective"):            @te.tag_scope(tag="conv")
    B = te.compute(…)                          def conv(A, W): …
"""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any

from mlcnb.core.errors import ArgumentError

_current: ContextVar[str] = ContextVar("tag", default="")


class TagScope(ContextDecorator):
    """A tag for what is made inside of a `with` block, or of a function that it decorates."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._tokens: list[Any] = []

    def __enter__(self) -> TagScope:
        if _current.get():
            raise ArgumentError(f"tag_scope {self.tag!r} stands in tag_scope {_current.get()!r}")
        self._tokens.append(_current.set(self.tag))
        return self

    def __exit__(self, *_exc: object) -> None:
        _current.reset(self._tokens.pop())


def tag_scope(tag: str) -> TagScope:
    """A tag for all computes and externs inside that have none of their own.

    Raises:
        ArgumentError: on entering, inside of another scope.
    """
    return TagScope(tag)


def tag_of(given: str) -> str:
    """The tag of a new operation: its own, else that of the scope."""
    return given or _current.get()
