"""The four stages in which a graph is compiled for a CPU; TVM's module of that name.

passes = [*library_dispatch_passes(target), *legalize_passes(target),
          *dataflow_lower_passes(target), *finalize_passes(target)]
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import Sequential
from mlcnb.relax.transform.pipeline import (
    dataflow_lower_passes,
    finalize_passes,
    get_pipeline,
    legalize_passes,
    library_dispatch_passes,
)

__all__ = [
    "dataflow_lower_passes",
    "finalize_passes",
    "get_default_pipeline",
    "legalize_passes",
    "library_dispatch_passes",
]


def get_default_pipeline(target: Any = None) -> Sequential:
    """The four stages as one pass."""
    return get_pipeline("cpu_generic", target=target)
