"""Programs to tune, for tests and examples."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, submodules=("te_workload",))
