"""Reductions of tensor expressions; `axis` None: over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run


def _axes(axis: Any) -> Any:
    return axis if axis is None else (tuple(axis) if isinstance(axis, tuple | list) else (axis,))


def _reduction(name: str, what: str) -> Callable[..., te.Tensor]:
    def reduce(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
        return run(name, data, axis=_axes(axis), keepdims=keepdims)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"{what} over some axes."
    return reduce


sum = _reduction("sum", "The sum")
max = _reduction("max", "The largest element")
min = _reduction("min", "The smallest element")
prod = _reduction("prod", "The product")


def argmax(data: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """Where along an axis the largest element is."""
    return run("argmax", data, axis=axis, keepdims=keepdims)


def argmin(data: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """Where along an axis the smallest element is."""
    return run("argmin", data, axis=axis, keepdims=keepdims)
