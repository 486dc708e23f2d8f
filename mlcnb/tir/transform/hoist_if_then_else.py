"""HoistIfThenElse: a test that is the same for every iteration is done once, before the loop.

for i in range(4):                              for i in range(4):
    for j in range(8):                              if i < 3:
        if i < 3:                        ->             for j in range(8):
            B[i, j] = A[i, j]                               B[i, j] = A[i, j]

Only where the test is all that the loop holds, and neither reads memory nor might divide by zero:
a loop of no iterations does not do its tests.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.hoist_expression import (
    HoistedConditionals,
    HoistedLetBindings,
    Hoisting,
    hoist_expressions,
)


def hoist_if_then_else(func: PrimFunc, axes: bool = False) -> PrimFunc:
    """`func` with tests moved out of loops whose variable they do not use.

    axes: also tests of thread axes.
    """
    tests = HoistedConditionals.IfElseStmt
    if axes:
        tests |= HoistedConditionals.UsingBlockVar
    return hoist_expressions(func, Hoisting(tests, HoistedLetBindings.Never))


class HoistIfThenElse(PrimFuncPass):
    """Move tests that do not depend on a loop out of it.

    variant: TVM's; "basic" is the default.
    """

    variant: str | None = None

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `hoist_if_then_else`."""
        options = ctx.get_config("tir.HoistIfThenElse")
        return hoist_if_then_else(func, bool(options["support_block_scope_hosting"]))
