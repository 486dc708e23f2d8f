"""Operators along axes: sums, extrema, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.relax.frontend.nn.tensor import Tensor, call, named


def _reduction(name: str, what: str) -> Callable[..., Tensor]:
    def apply(x: Tensor, axis: Any = None, keepdims: bool = False, name: str = name) -> Tensor:
        return call(public, x, axis=axis, keepdims=keepdims, name=name)

    public = name
    return named(apply, name, f"{what} along axes (an int, a list, None for all).")


sum = _reduction("sum", "The sum")
mean = _reduction("mean", "The mean")
max = _reduction("max", "The largest")
min = _reduction("min", "The smallest")


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """Running sums along an axis, of the flat array if None; exclusive: without the element."""
    options = {"axis": axis, "dtype": dtype, "exclusive": bool(exclusive)}
    return call("cumsum", data, **options, name=name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The elements in order along an axis."""
    return call("sort", x, axis=axis, descending=descending, name=name)


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    """The indices that bring the elements in order along an axis."""
    options = {"axis": axis, "descending": descending, "dtype": dtype}
    return call("argsort", data, **options, name=name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """The k largest (or smallest) along an axis: values and indices, or one of them by ret_type."""
    options = {"k": k, "axis": axis, "ret_type": ret_type, "largest": largest, "dtype": dtype}
    return call("topk", data, **options, name=name)
