"""ExternalModule: functions that something else than this compiler made, by their symbols.

I.module_attrs({"external_mods": [I.external_module("blas", ["fused_relax_matmul_blas"])]})

A module keeps those that its calls name in its attribute `external_mods`. The text says which there
are; the functions themselves are Python's and do not go into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, Node, hidden, node

#: the attribute of modules
EXTERNAL_MODULES = "external_mods"


@node
class ExternalModule(Node):
    """Functions of a library.

    Attributes:
        library: its name, such as "blas".
        symbols: the names of the functions.
        functions: symbol -> function that takes arrays, its results last; none where the module was
            read from text.
        source: what the library was told, to look at.
    """

    library: str
    symbols: tuple[str, ...]
    functions: FrozenDict = hidden(default=FrozenDict())
    source: str = hidden(default="")

    @staticmethod
    def of(
        library: str, functions: Mapping[str, Callable[..., Any]], source: str = ""
    ) -> ExternalModule:
        """A module of these functions."""
        return ExternalModule(library, tuple(functions), FrozenDict(functions), source)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.symbols

    def __getitem__(self, symbol: str) -> Callable[..., Any]:
        """A function by its symbol.

        Raises:
            MLCError: it has no such function, or was read from text.
        """
        if symbol not in self.symbols:
            known = ", ".join(self.symbols) or "none"
            raise MLCError(f"the library {self.library} has no function {symbol!r}: it has {known}")
        if symbol not in self.functions:
            raise MLCError(
                f"{symbol!r} is a function of the library {self.library}, which did not make it "
                "here",
                hint="text and files do not hold it: run relax.transform.RunCodegen again",
            )
        found: Callable[..., Any] = self.functions[symbol]
        return found

    def get_source(self) -> str:
        """What the library was told."""
        return self.source


def external_function(mod: Any, symbol: str) -> Callable[..., Any] | None:
    """The function of that symbol among a module's external modules, or None."""
    for module in mod.attrs.get(EXTERNAL_MODULES, ()):
        if isinstance(module, ExternalModule) and symbol in module:
            return module[symbol]
    return None
