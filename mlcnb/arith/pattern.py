"""Linear forms and clips, by the names of `tvm.arith.pattern`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.linear": "detect_linear_equation",
        "mlcnb.arith.deduce": "detect_clip_bound",
    },
)
