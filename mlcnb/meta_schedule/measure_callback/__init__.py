"""Measure callbacks: what is done with each batch of results; each file here is one."""

from __future__ import annotations

from mlcnb.meta_schedule.measure_callback.callback import MeasureCallback, PyMeasureCallback
from mlcnb.meta_schedule.part import found

__all__ = ["MeasureCallback", "PyMeasureCallback"]
__getattr__ = found(globals())
