"""Reductions of tensor expressions; `axis` None: over all of them."""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run


def _axes(axis: Any) -> Any:
    return axis if axis is None else (tuple(axis) if isinstance(axis, tuple | list) else (axis,))


def sum(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The sum over some axes."""
    return run("sum", data, axis=_axes(axis), keepdims=keepdims)


def max(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The largest element over some axes."""
    return run("max", data, axis=_axes(axis), keepdims=keepdims)


def min(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The smallest element over some axes."""
    return run("min", data, axis=_axes(axis), keepdims=keepdims)


def prod(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The product over some axes."""
    return run("prod", data, axis=_axes(axis), keepdims=keepdims)


def argmax(data: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """Where along an axis the largest element is."""
    return run("argmax", data, axis=axis, keepdims=keepdims)


def argmin(data: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """Where along an axis the smallest element is."""
    return run("argmin", data, axis=axis, keepdims=keepdims)
