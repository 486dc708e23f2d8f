"""Schedules for GPUs. A rule is a function `rule(sch, survey, target) -> bool`: True if it took it.

RULES, first that fits:    matmul           products and convolutions, in tiles in shared memory
                           rows             softmax, normalisations, reductions along rows
                           fallback         a thread for each element

By TVM's names, for `ApplyDefaultSchedule`: `Matmul`, `Reduction` and `GeneralReduction` (rows),
`Fallback`.
"""

from __future__ import annotations

from mlcnb.dlight.gpu.fallback import fallback
from mlcnb.dlight.gpu.matmul import matmul
from mlcnb.dlight.gpu.rows import rows
from mlcnb.dlight.rule import ScheduleRule, first_that_fits, is_scheduled
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

RULES = (matmul, rows, fallback)

Matmul = ScheduleRule(matmul)
Reduction = GeneralReduction = ScheduleRule(rows)
Fallback = ScheduleRule(fallback)


def schedule_gpu(func: PrimFunc, target: Target) -> Schedule | None:
    """A schedule for `func` on the threads of a GPU; None where it has been scheduled already."""
    return None if is_scheduled(func) else first_that_fits(RULES, func, target)
