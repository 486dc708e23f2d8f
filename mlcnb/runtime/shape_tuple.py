"""ShapeTuple: a shape as a value of the runtime, what `R.Shape` parameters take and give."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any


class ShapeTuple(tuple[int, ...]):
    """A tuple of whole numbers; equal to a tuple of the same ones."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[Any]) -> ShapeTuple:
        """Of numbers that are whole.

        Raises:
            TypeError: one is not.
        """
        return super().__new__(cls, map(index, shape))

    def __repr__(self) -> str:
        return f"ShapeTuple({list(self)})"
