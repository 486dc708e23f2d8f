"""Questions about loop programs: what they touch, what they cost, whether they are well formed."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.analysis.access": "detect_buffer_access complete_regions union_regions",
        "mlcnb.tir.analysis.variables": "undefined_vars",
    },
)
