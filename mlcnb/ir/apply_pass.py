"""ApplyPassToFunction: a pass that sees some functions of a module only.

ApplyPassToFunction(FoldConstant(), "main|head.*")(mod)
"""

from __future__ import annotations

import re
from typing import Any

from mlcnb.core import options
from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext


class ApplyPassToFunction(ModulePass):
    """Run a pass on the functions of some names; the others, and what they call, are not seen.

    Any shapes and dtypes; what the pass refuses is refused.

    Raises:
        PassError: no function has such a name, where that is an error.
    """

    transform: Any = None
    #: a regular expression that a whole name has to match
    func_name_regex: str = ".*"
    error_if_no_function_matches_regex: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with what the pass makes of these functions; what it adds is there too."""
        chosen = [k for k in mod if re.fullmatch(self.func_name_regex, k.name_hint)]
        if not chosen:
            if self.error_if_no_function_matches_regex:
                names = ", ".join(k.name_hint for k in mod)
                raise PassError(
                    f"ApplyPassToFunction: no function matches {self.func_name_regex!r}",
                    hint=f"the module has {names}",
                )
            return mod
        part = replace(
            mod, functions=FrozenDict({k: f for k, f in mod.functions.items() if k in chosen})
        )
        with options.scoped(well_formed=False):
            made = self.transform(part)
        if made is part:
            return mod
        kept = {k: f for k, f in mod.functions.items() if k not in chosen or k in made.functions}
        return replace(mod, functions=FrozenDict({**kept, **made.functions}))
