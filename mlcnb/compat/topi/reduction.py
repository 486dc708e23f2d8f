"""Reductions of tensor expressions; `axis` None: over all of them."""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run
from mlcnb.ir import prim_ops as p


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


def argmax(
    data: te.Tensor, axis: int | None = None, keepdims: bool = False,
    select_last_index: bool = False,
) -> te.Tensor:  # fmt: skip
    """Where along an axis the largest element is: the first of equal ones, or the last."""
    return _place("argmax", data, axis, keepdims, select_last_index)


def argmin(
    data: te.Tensor, axis: int | None = None, keepdims: bool = False,
    select_last_index: bool = False,
) -> te.Tensor:  # fmt: skip
    """Where along an axis the smallest element is: the first of equal ones, or the last."""
    return _place("argmin", data, axis, keepdims, select_last_index)


def _place(
    name: str, data: te.Tensor, axis: int | None, keepdims: bool, select_last: bool
) -> te.Tensor:
    if not select_last:
        return run(name, data, axis=axis, keepdims=keepdims)
    flat, along = (run("flatten", data), 0) if axis is None else (data, axis)
    place = run(name, run("flip", flat, axis=along), axis=along, keepdims=keepdims)
    last = p.cast(place.dtype, flat.shape[along]) - 1
    found = te.compute(place.shape, lambda *i: last - place(*i), name=f"{name}_last")
    return run("reshape", found, [1] * len(data.shape)) if axis is None and keepdims else found
