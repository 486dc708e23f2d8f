"""Operators that move elements, and matmul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.relax.frontend.nn.tensor import Tensor, call, reshape


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """A new dimension of length 1 at `dim`."""
    return call("expand_dims", x, axis=dim, name=name)


def squeeze(x: Tensor, axis: Any = -1, name: str = "squeeze") -> Tensor:
    """Without the dimensions of length 1 at `axis` (an int or a list; None: all of length 1)."""
    axes = [axis] if isinstance(axis, int) else axis
    return call("squeeze", x, axis=axes, name=name)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1, name: str = "flatten") -> Tensor:
    """The dimensions from `start_dim` to `end_dim`, both included, as one."""
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return reshape(x, [*x.shape[:first], -1, *x.shape[last + 1 :]], name=name)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Tensors one after another along `dim`."""
    if not isinstance(x, list | tuple) or not x:
        raise ArgumentError(f"nn.op.concat takes a list of Tensors, got {x!r}")
    return call("concat", list(x), axis=dim, name=name)


def split(
    ary: Tensor, indices_or_sections: Any, axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Pieces along an axis: so many equal ones, or cut at these indices."""
    return call("split", ary, indices_or_sections=indices_or_sections, axis=axis, name=name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """`chunks` pieces along `dim`."""
    return split(x, chunks, dim, name)


def broadcast_to(x: Tensor, shape: Sequence[Any], name: str = "broadcast_to") -> Tensor:
    """x repeated along dimensions of length 1 up to `shape`."""
    return call("broadcast_to", x, tuple(shape), name=name)


def permute_dims(
    x: Tensor, axes: Sequence[int] | None = None, name: str = "permute_dims"
) -> Tensor:
    """The dimensions in the order of `axes`; reversed if None."""
    return call("permute_dims", x, axes=axes, name=name)


def permute(x: Tensor, axes: Sequence[int] | None = None, name: str = "permute") -> Tensor:
    """`permute_dims` under its other name."""
    return permute_dims(x, axes, name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Each element `repeats` times along an axis; of the flat array if None."""
    return call("repeat", x, repeats=repeats, axis=axis, name=name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """The elements of x at `indices` along an axis; of the flat array if None."""
    return call("take", x, indices, axis=axis, name=name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """The product of the last two dimensions; those before broadcast. Sums are of `out_dtype`."""
    return call("matmul", a, b, out_dtype=out_dtype, name=name)
