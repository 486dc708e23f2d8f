"""VerifyMemory and VerifySSA: passes that change nothing, and refuse what is not in form."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import WellFormedError
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.verify import verify_memory, verify_ssa
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
