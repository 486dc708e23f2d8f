"""convert: Python values as values of a program."""

from __future__ import annotations

from typing import Any

from mlcnb.ir import prim_ops as p


def convert(value: Any) -> Any:
    """Numbers and texts as constants (int32, float32, bool), lists as tuples; nodes as they are."""
    if isinstance(value, bool | int | float | str):
        return p.as_expr(value)
    if isinstance(value, list | tuple):
        return tuple(map(convert, value))
    return value
