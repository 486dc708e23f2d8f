"""The reference interpreter: what a PrimFunc means, element by element, bounds-checked."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"mlcnb.codegen.interp.program": "run_prim_func Program"}
)
