"""Passes over which functions a module has, and what is said of them.

Filter(lambda f: ...)     keeps the functions for which it holds
Apply(f)                  puts f(function) in the place of each loop function
AnnotateEntryFunc()       marks the only function as the one that is called from outside
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PrimFuncPass
from mlcnb.tir.function import PrimFunc

#: attribute of the function that is called from outside
IS_ENTRY = "tir.is_entry_func"


class Filter(ModulePass):
    """Keep the loop functions for which `fcond(func)` holds; others are left alone."""

    fcond: Any

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The module without the loop functions for which it does not hold."""
        gone = [k for k, f in mod.of_kind(PrimFunc).items() if not self.fcond(f)]
        return mod.without_functions(gone) if gone else mod


class Apply(PrimFuncPass):
    """Put `ftransform(func)` in the place of each loop function."""

    ftransform: Any

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """What the function makes of it."""
        return self.ftransform(func)


class AnnotateEntryFunc(ModulePass):
    """Mark the function that is called from outside: the only one, or the only exported one."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The module with the attribute `tir.is_entry_func`; as it is where several would be it."""
        functions = [(k, f) for k, f in mod.of_kind(PrimFunc).items()]
        exported = [(k, f) for k, f in functions if "global_symbol" in f.attrs]
        chosen = functions if len(functions) == 1 else exported
        if len(chosen) != 1 or IS_ENTRY in chosen[0][1].attrs:
            return mod
        key, func = chosen[0]
        return mod.with_function(key, func.with_attr(IS_ENTRY, True))
