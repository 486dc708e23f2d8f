"""From a lowered kernel to CUDA C++ text that can be read."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"mlcnb.codegen.cuda.emit.kernel": "emit_kernel CudaSource"}
)
