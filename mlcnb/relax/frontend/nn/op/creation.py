"""Operators that make tensors out of sizes: full, arange, triu, timestep embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.relax.expr import const
from mlcnb.relax.frontend.nn.tensor import (
    Tensor,
    as_tensor,
    call,
    get_default_dtype,
    unwrap,
    wrap_nested,
)


def full(
    shape: Sequence[Any], fill_value: Any, dtype: str = "float32", name: str = "full"
) -> Tensor:
    """A tensor of one value (a number, or a Tensor of shape ())."""
    like = Tensor.placeholder((), dtype)
    value = unwrap(as_tensor(fill_value, like))
    return call("full", tuple(shape), value, dtype=dtype, name=name)


def zeros(shape: Sequence[Any], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros."""
    return call("zeros", tuple(shape), dtype, name=name)


def ones(shape: Sequence[Any], dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones."""
    return call("ones", tuple(shape), dtype, name=name)


def empty(shape: Sequence[Any], dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor whose content nobody may rely on; here it is zeros."""
    return call("zeros", tuple(shape), dtype, name=name)


def arange(
    start: Any, end: Any = None, step: Any = 1, dtype: str = "float32", name: str = "arange"
) -> Tensor:
    """start, start + step, … below end; from 0 where there is one number."""
    first, last = (0, start) if end is None else (start, end)
    return call("arange", first, last, step, dtype=dtype, name=name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """x with zeros below the diagonal of that number."""
    return call("triu", x, k=diagonal, name=name)


def tril(x: Tensor, diagonal: int = 0, name: str = "tril") -> Tensor:
    """x with zeros above the diagonal of that number."""
    return call("tril", x, k=diagonal, name=name)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sines and cosines of steps at falling frequencies (arXiv 2006.11239).

    Args:
        x: steps, shape (n,).
        embedding_dim: columns of the result; an odd one gets a column of zeros.
        flip_sin_to_cos: cosines first.
        downscale_freq_shift: taken from the number of frequencies.
        scale: factor of the angles.
        max_period: of the slowest sine.
        name: the variable's name.

    Returns:
        Shape (n, embedding_dim), of the default dtype.
    """
    from mlcnb.relax import op

    half = embedding_dim // 2
    steps = op.expand_dims(op.astype(unwrap(x), "float32"), axis=[1])
    steps = wrap_nested(steps, "lv")
    exponents = op.multiply(
        const(-math.log(max_period), "float32"), op.arange(0, half, 1, dtype="float32")
    )
    exponents = op.divide(exponents, const(half - downscale_freq_shift, "float32"))
    frequencies = wrap_nested(op.expand_dims(op.exp(exponents), axis=[0]), "lv")
    angles = steps * frequencies
    if scale != 1:
        angles = Tensor.from_scalar(scale, "float32") * angles
    waves = [op.sin(unwrap(angles)), op.cos(unwrap(angles))]
    made = op.concat(waves[::-1] if flip_sin_to_cos else waves, axis=-1)
    if embedding_dim % 2:
        made = op.nn.pad(made, (0, 0, 0, 1))
    return wrap_nested(op.astype(made, get_default_dtype()), name)
