"""Python's operators of an object, said by a function of two values.

class Expr:
    __sub__, __rsub__ = both(subtract)      x - 1 is subtract(x, 1), 1 - x is subtract(1, x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


def both(apply: Callable[[Any, Any], R]) -> tuple[Callable[[Any, Any], R], Callable[[Any, Any], R]]:
    """The method of an operator, and of the same with the object on its right."""

    def turned(self: Any, other: Any) -> R:
        return apply(other, self)

    return apply, turned
