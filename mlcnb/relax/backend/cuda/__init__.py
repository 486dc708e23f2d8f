"""Libraries of NVIDIA GPUs, through CuPy: cublas, cudnn; and the stages of CUDA's pipeline."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.transform.pipeline": (
            "library_dispatch_passes legalize_passes dataflow_lower_passes finalize_passes"
        ),
        "mlcnb.relax.backend.gpu_generic": "get_default_pipeline",
    },
    submodules=("cublas", "cudnn"),
)
