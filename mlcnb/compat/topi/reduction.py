"""Reductions of tensor expressions; `axis` None: over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run
from mlcnb.ir import prim_ops as p


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
