"""Libraries of NVIDIA GPUs, through CuPy: cublas, cudnn."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, submodules=("cublas", "cudnn"))
