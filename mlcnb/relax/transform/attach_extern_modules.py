"""AttachExternModules: a module takes functions from elsewhere with it.

                                        I.module_attrs({"external_mods": [
gv = R.call_dps_packed("my_add", …)  ->     I.external_module("extern", ["my_add"])]})
                                        gv = R.call_dps_packed("my_add", …)

What calls them asks the module first, so that it runs whatever is registered when it does.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.text import kind_of
from mlcnb.ir.external import EXTERNAL_MODULES, ExternalModule
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext


class AttachExternModules(ModulePass):
    """Load `nn.ExternModule`s and keep them in the module's attribute `external_mods`.

    Shapes and dtypes are what their calls say. Functions that the module has already stay.

    Raises:
        PassError: something has no `load()` that gives an ExternalModule, or the module has another
            function of the same symbol.
        UnsupportedError: an object file or source for TVM's C interface, without Python functions
            registered in its place.
    """

    #: as `module.export_tvm(spec, allow_extern=True)` gives them, third
    extern_modules: Any = ()

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with those that it has not."""
        known = list(mod.attrs.get(EXTERNAL_MODULES, ()))
        new = [m for m in map(_loaded, self.extern_modules) if not _has(known, m, mod)]
        if not new:
            return mod
        ctx.note(f"{sum(len(m.symbols) for m in new)} functions from elsewhere")
        return mod.with_attr(EXTERNAL_MODULES, (*known, *new))


def _loaded(extern: Any) -> ExternalModule:
    load = getattr(extern, "load", None)
    made = extern if isinstance(extern, ExternalModule) else load and load()
    if not isinstance(made, ExternalModule):
        raise PassError(
            f"AttachExternModules: {kind_of(extern)} is no module of functions",
            hint="an nn.ExternModule, as module.export_tvm(spec, allow_extern=True) gives them",
        )
    return made


def _has(known: list[ExternalModule], new: ExternalModule, mod: IRModule) -> bool:
    """Whether all functions of `new` are there already.

    Raises:
        PassError: another has a symbol of its.
    """
    there = {symbol: m.functions.get(symbol) for m in known for symbol in m.symbols}
    for symbol in new.symbols:
        if symbol in there and there[symbol] is not new.functions.get(symbol):
            raise PassError(
                f"AttachExternModules: the module has another function {symbol!r}",
                root=mod,
                hint="one symbol, one function: give it another name",
            )
    return all(symbol in there for symbol in new.symbols)
