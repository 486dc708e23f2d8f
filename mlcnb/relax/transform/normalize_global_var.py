"""NormalizeGlobalVar: every function is called in the module as it is called outside.

GlobalVar("f"), global_symbol "main"          GlobalVar("main")
GlobalVar("main"), private             ->     GlobalVar("main_1")
"""

from __future__ import annotations

from mlcnb.core.errors import PassError
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.function_table import with_names


class NormalizeGlobalVar(ModulePass):
    """Name functions by their global_symbol; private ones that are in the way get a new name.

    Calls follow; shapes and dtypes stay.

    Raises:
        PassError: two functions have one global_symbol.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with its names, here and where they are called."""
        public: dict[str, GlobalVar] = {}
        for key, func in mod.items():
            symbol = func.attrs.get("global_symbol")
            if symbol is not None and public.setdefault(str(symbol), key) is not key:
                raise PassError(
                    f"NormalizeGlobalVar: {public[str(symbol)].name_hint} and {key.name_hint} "
                    f"both have the global_symbol {str(symbol)!r}",
                    root=mod,
                    hint="give one of them another with_attr('global_symbol', name)",
                )
        new = _names(mod, public)
        if all(k.name_hint == n.name_hint for k, n in new.items()):
            return mod

        ctx.note(f"{sum(k.name_hint != n.name_hint for k, n in new.items())} functions renamed")
        return with_names(mod, new)


def _names(mod: IRModule, public: dict[str, GlobalVar]) -> dict[GlobalVar, GlobalVar]:
    """Every GlobalVar as it is to be called; public ones first, then private ones as they can."""
    names = {key: symbol for symbol, key in public.items()}
    taken = {*public, *(k.name_hint for k in mod if k not in names)}
    found = {}
    for key in mod:
        name = names.get(key, key.name_hint)
        number = 0
        while key not in names and name in public or key not in names and number and name in taken:
            number += 1
            name = f"{key.name_hint}_{number}"
        taken.add(name)
        found[key] = key if name == key.name_hint else GlobalVar(name)
    return found
