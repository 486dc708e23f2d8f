"""AttachGlobalSymbol: functions get their linkage names.

def main(x): …         ->      def main(x):
                                   R.func_attr({"global_symbol": "main"})

Where the module has the attribute `system_lib_prefix`, private loop functions get it before their
names, so that two libraries can be linked together.
"""

from __future__ import annotations

from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.function_table import with_names
from mlcnb.tir.function import PrimFunc


class AttachGlobalSymbol(ModulePass):
    """Give each function the attribute `global_symbol`: its name in the module.

    Graph functions and loop functions, private ones too, which are then public. Shapes and dtypes
    stay, nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Graph functions and loop functions."""
        mod = _prefixed(mod)
        changed = {
            key: func.with_attr("global_symbol", key.name_hint)
            for key, func in mod.items()
            if func.attrs.get("global_symbol") != key.name_hint
        }
        return mod.with_functions(changed)


def _prefixed(mod: IRModule) -> IRModule:
    """The module whose private loop functions have its prefix in their names."""
    prefix = mod.attrs.get("system_lib_prefix")
    if not prefix:
        return mod
    new = {
        key: GlobalVar(f"{prefix}{key.name_hint}")
        for key, func in mod.of_kind(PrimFunc).items()
        if "global_symbol" not in func.attrs
    }
    return with_names(mod, new) if new else mod
