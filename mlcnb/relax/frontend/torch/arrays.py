"""Tensors of PyTorch as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedError
from mlcnb.relax.frontend.torch.node import dtype_of


def array_of(tensor: Any, name: str) -> np.ndarray:
    """The elements of a torch.Tensor, copied: what an optimizer does later is not seen.

    Raises:
        UnsupportedError: a sparse or complex one, or one without memory.
    """
    import torch

    kind = dtype_of(tensor.dtype, name)
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise UnsupportedError(f"{name!r} is a tensor without plain memory", hint="use .to_dense()")
    plain_one = tensor.detach().cpu().contiguous()
    if hasattr(plain_one, "resolve_neg"):
        plain_one = plain_one.resolve_neg()
    if kind == "bfloat16" or kind.startswith("float8"):
        import ml_dtypes

        bits = torch.int16 if kind == "bfloat16" else torch.uint8
        return plain_one.view(bits).numpy().view(getattr(ml_dtypes, kind)).copy()
    return plain_one.numpy().copy()
