"""TVM's older names for tensors: `nd.array`, `nd.empty`."""

from __future__ import annotations

from mlcnb.runtime.tensor import Tensor as NDArray
from mlcnb.runtime.tensor import array, empty, from_dlpack

__all__ = ["NDArray", "array", "empty", "from_dlpack"]
