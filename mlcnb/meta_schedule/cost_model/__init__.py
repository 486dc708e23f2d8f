"""Cost models: which candidates are worth measuring; each file here is one."""

from __future__ import annotations

from mlcnb.meta_schedule.cost_model.model import CostModel, PyCostModel
from mlcnb.meta_schedule.part import found

__all__ = ["CostModel", "PyCostModel"]
__getattr__ = found(globals())
