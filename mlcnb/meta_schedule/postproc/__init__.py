"""Postprocessors: what is done to a schedule when its draws are known.

postproc.apply(sch) -> bool      False: the candidate is given up"""

from __future__ import annotations

from mlcnb.meta_schedule.part import found
from mlcnb.meta_schedule.postproc.postprocessor import Postproc, PyPostproc

__all__ = ["Postproc", "PyPostproc"]
__getattr__ = found(globals())
