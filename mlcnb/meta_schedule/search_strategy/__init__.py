"""Search strategies: which candidates are measured next."""

from __future__ import annotations

from mlcnb.meta_schedule.part import found
from mlcnb.meta_schedule.search_strategy.strategy import (
    MeasureCandidate,
    PySearchStrategy,
    SearchStrategy,
)

__all__ = ["MeasureCandidate", "PySearchStrategy", "SearchStrategy"]
__getattr__ = found(globals())
