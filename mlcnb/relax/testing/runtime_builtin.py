"""`relax.testing.runtime_builtin`, see `mlcnb.runtime.shape_builtin`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"mlcnb.runtime.shape_builtin": "MakeShapeCode MatchShapeCode"}
)
