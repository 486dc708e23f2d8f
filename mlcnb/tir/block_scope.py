"""Places of a schedule's program, what depends on what: the names of `tvm.tir.block_scope`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {"mlcnb.tir.schedule": "BlockScope Dependency DepKind StmtSRef"},
)
