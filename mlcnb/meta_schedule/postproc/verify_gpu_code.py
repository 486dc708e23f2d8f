"""VerifyGPUCode: no candidates that a GPU's blocks, threads or shared memory cannot hold."""

from __future__ import annotations

from mlcnb.core.errors import MLCError
from mlcnb.meta_schedule.postproc.postprocessor import Postproc
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits, verify_gpu_code
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.lower import lower


class VerifyGPUCode(Postproc):
    """The lowered program keeps the limits of the target."""

    kind = "verify-gpu-code"

    def apply(self, sch: Schedule) -> bool:
        """Whether it does; also False where it cannot be lowered."""
        func = sch.mod[sch.func_working_on]
        try:
            return verify_gpu_code(lower(func), GpuLimits.of(self.target))
        except MLCError:
            return False
