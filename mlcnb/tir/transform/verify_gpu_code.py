"""VerifyGPUCode: refuses a kernel that no GPU of the target can run.

with T.launch_thread("threadIdx.x", 2048) as tx:     ->   PassError: threadIdx.x has 2048
    B[tx] = A[tx]                                         iterations, the GPU takes at most 1024
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits, assert_gpu_code
from mlcnb.tir.function import PrimFunc


class VerifyGPUCode(PrimFuncPass):
    """Refuse kernels with too many threads or too much memory for the current target."""

    limits: GpuLimits | None = None

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """`func` itself, if it fits: see `mlcnb.tir.analysis.verify_gpu_code`."""
        found = self.limits or GpuLimits.of(Target.current() or Target("cuda"))
        assert_gpu_code(func, found)
        return func
