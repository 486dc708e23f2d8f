"""VerifyMemory, VerifySSA, VerifyGPUCode: they change nothing, and refuse what is not in form.

with T.launch_thread("threadIdx.x", 2048) as tx:     ->   PassError: threadIdx.x has 2048
    B[tx] = A[tx]                                         iterations, the GPU takes at most 1024
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import WellFormedError
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir.analysis.verify import verify_memory, verify_ssa
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits, assert_gpu_code
from mlcnb.tir.function import PrimFunc


class VerifyMemory(PrimFuncPass):
    """Refuse code for a GPU that touches memory of the device outside of its threads."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function itself.

        Raises:
            WellFormedError: it does not hold; see `verify_memory`.
        """
        if not verify_memory(func):
            raise WellFormedError(
                "VerifyMemory: memory of the device is touched on the host; "
                "did you forget to bind a loop to threads?",
                root=func,
            )
        return func


class VerifySSA(PrimFuncPass):
    """Refuse a function that defines a variable twice."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function itself.

        Raises:
            WellFormedError: it does not hold; see `verify_ssa`.
        """
        if not verify_ssa(func):
            raise WellFormedError(
                "VerifySSA: a variable is defined twice", root=func, hint="run ConvertSSA"
            )
        return func


class VerifyGPUCode(PrimFuncPass):
    """Refuse kernels with too many threads or too much memory for the current target."""

    limits: GpuLimits | None = None

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """`func` itself, if it fits: see `mlcnb.tir.analysis.verify_gpu_code`."""
        found = self.limits or GpuLimits.of(Target.current() or Target("cuda"))
        assert_gpu_code(func, found)
        return func
