"""ConvertSSA: every variable is defined in one place, over all functions of the module.

with T.LetStmt(16) as x: T.evaluate(x)          with T.LetStmt(16) as x: T.evaluate(x)
with T.LetStmt(32) as x: T.evaluate(x)    ->    with T.LetStmt(32) as y: T.evaluate(y)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.tir.renew import renewed


class ConvertSSA(ModulePass):
    """Give every definition a variable of its own."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The functions in order: the first to define a variable keeps it."""
        return renewed(mod)
