"""Tensors of PyTorch as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedError
from mlcnb.relax.frontend.torch.node import part_dtype
from mlcnb.runtime.tensor import as_array


def array_of(tensor: Any, name: str) -> np.ndarray:
    """The elements of a torch.Tensor, copied: what an optimizer does later is not seen.

    It is read as it is while PyTorch traces a graph, too, when new tensors have shapes alone.

    Raises:
        UnsupportedError: a sparse one, or one without memory.
    """
    import torch

    part_dtype(tensor.dtype, name)  # refuses quantised ones
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise UnsupportedError(f"{name!r} is a tensor without plain memory", hint="use .to_dense()")
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        plain_one = tensor.detach().cpu().contiguous()
        if hasattr(plain_one, "resolve_neg"):
            plain_one = plain_one.resolve_neg()
        if plain_one.is_complex():
            found: np.ndarray = plain_one.resolve_conj().numpy().copy()
            return found
        return as_array(plain_one, name).copy()
