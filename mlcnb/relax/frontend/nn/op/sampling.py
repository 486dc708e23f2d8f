"""Drawing tokens from probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import ArgumentError, UnsupportedOpError
from mlcnb.relax.frontend.nn.tensor import Tensor, call


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """The indices that uniform numbers draw from rows of probabilities.

    Args:
        prob: (batch, n), rows that sum to 1.
        uniform_sample: (draws, 1), numbers from 0 to 1.
        sample_indices: (draws, 1), the row of each draw; the draw's own if None.
        dtype: of the result.
        name: the variable's name.

    Returns:
        Shape (draws, 1).
    """
    if sample_indices is None:
        draws = uniform_sample.shape[0]
        if not isinstance(draws, int) or prob.shape[0] != draws:
            raise ArgumentError(
                "nn.op.multinomial_from_uniform: "
                f"{prob} and {uniform_sample} differ in rows, or these are not known",
                hint="give sample_indices, the row of each draw",
            )
        sample_indices = Tensor.from_const(np.arange(draws).reshape(draws, 1))
    tensors = (prob, uniform_sample, sample_indices)
    return call("multinomial_from_uniform", *tensors, dtype=dtype, name=name)


def sample_top_p_top_k_from_sorted_prob(*args: Any, **kwargs: Any) -> Tensor:
    """Refused: UnsupportedOpError."""
    raise _refused("sample_top_p_top_k_from_sorted_prob")


def renormalize_top_p_top_k_prob(*args: Any, **kwargs: Any) -> Tensor:
    """Refused: UnsupportedOpError."""
    raise _refused("renormalize_top_p_top_k_prob")


def _refused(name: str) -> UnsupportedOpError:
    return UnsupportedOpError(
        f"nn.op.{name} is not supported",
        hint="write it with op.cumsum, op.where and op.multinomial_from_uniform",
    )
