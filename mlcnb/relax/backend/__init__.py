"""Libraries that may run parts of a graph: their patterns, and what calls them.

    mod = relax.backend.partition(mod, "blas")       what blas can do, as functions of its own
    mod = relax.transform.RunCodegen()(mod)          … and what calls it, in external_mods

A library is a file of this folder: it registers patterns named "NAME.what" (`register_patterns`)
and a global function `relax.ext.NAME` that makes what runs them. A reader's own needs no file.
"""

from __future__ import annotations

import importlib

from mlcnb.core.lazy import attach

_HERE = "mlcnb.relax.backend"
#: library -> the module that brings it
LIBRARIES = {
    "blas": f"{_HERE}.blas",
    "onnxruntime": f"{_HERE}.onnxruntime",
    "cublas": f"{_HERE}.cuda.cublas",
    "cudnn": f"{_HERE}.cuda.cudnn",
}

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.pattern_registry": (
            "register_patterns get_pattern get_patterns_with_prefix partition"
        ),
        "mlcnb.relax.transform.fuse_ops_by_pattern": "FusionPattern PatternCheckContext",
        "mlcnb.ir.external": "ExternalModule",
        f"{_HERE}.dispatch": "DispatchSampling DispatchSortScan",
        f"{_HERE}.utils": "has_leaking_intermediate_variables",
    },
    submodules=("patterns", "cuda", "cpu_generic", "gpu_generic"),
)


def load(library: str) -> None:
    """Import what registers a library of ours; another one has registered itself."""
    if library in LIBRARIES:
        importlib.import_module(LIBRARIES[library])
