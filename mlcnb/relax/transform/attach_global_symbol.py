"""AttachGlobalSymbol: functions get their linkage names.

def main(x): …         ->      def main(x):
                                   R.func_attr({"global_symbol": "main"})
"""

from __future__ import annotations

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext


class AttachGlobalSymbol(ModulePass):
    """Give each function the attribute `global_symbol`: its name in the module.

    Graph functions and loop functions, private ones too, which are then public. Nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Graph functions and loop functions."""
        changed = {
            key: func.with_attr("global_symbol", key.name_hint)
            for key, func in mod.items()
            if func.attrs.get("global_symbol") != key.name_hint
        }
        return mod.with_functions(changed) if changed else mod
