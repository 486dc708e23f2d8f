"""Bounds of a variable under a condition, by the names of `tvm.arith.bound`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.deduce": "deduce_bound",
    },
)
