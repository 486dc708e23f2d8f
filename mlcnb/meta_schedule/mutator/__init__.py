"""Mutators: a trace with one draw changed; each file here is one.

mutator.apply(trace, rng) -> Trace | None      None: there is nothing to change"""

from __future__ import annotations

from mlcnb.meta_schedule.mutator.mutation import Mutator, PyMutator
from mlcnb.meta_schedule.part import found

__all__ = ["Mutator", "PyMutator"]
__getattr__ = found(globals())
