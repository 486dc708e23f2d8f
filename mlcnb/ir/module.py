"""IRModule: the functions of a program, graph functions and loop functions side by side.

mod["main"]                      a function, by name or GlobalVar
mod.with_function("main", f)     a new module: modules are immutable like every node
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import EMPTY, FrozenDict, Node, node, replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.function import BaseFunc


@node
class IRModule(Node):
    """Functions by their `GlobalVar` (or name), attributes, and global infos (such as virtual
    devices).
    """

    functions: FrozenDict = EMPTY
    attrs: FrozenDict = EMPTY
    global_infos: FrozenDict = EMPTY

    def __post_init__(self) -> None:
        given = self.functions
        if type(given) is not FrozenDict or any(isinstance(name, str) for name in given):
            pairs = {_global(name): function for name, function in given.items()}
            object.__setattr__(self, "functions", FrozenDict(pairs))

    @staticmethod
    def make(functions: Mapping[Any, BaseFunc], **attrs: Any) -> IRModule:
        """A module of functions given by name or GlobalVar."""
        pairs = {_global(k): f for k, f in functions.items()}
        return IRModule(FrozenDict(pairs), FrozenDict(attrs))

    @staticmethod
    def from_expr(function: BaseFunc) -> IRModule:
        """A module with one function, named by its `global_symbol` (else "main")."""
        return IRModule.make({function.attrs.get("global_symbol", "main"): function})

    def __getitem__(self, key: str | GlobalVar) -> Any:
        found = self.functions.get(_global(key))
        if found is None:
            names = ", ".join(v.name_hint for v in self.functions) or "none"
            raise MLCError(f"no function {_global(key).name_hint!r} in the module: it has {names}")
        return found

    def __contains__(self, key: str | GlobalVar) -> bool:
        return _global(key) in self.functions

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def items(self) -> ItemsView[GlobalVar, BaseFunc]:
        """Pairs of GlobalVar and function, in order."""
        return self.functions.items()

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """TVM's spelling of `items()`."""
        return list(self.functions.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """The GlobalVar of a function's name.

        Raises:
            MLCError: there is no such function.
        """
        self[name]
        return _global(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """All GlobalVars, in order."""
        return list(self.functions)

    def with_function(self, key: str | GlobalVar, function: BaseFunc) -> IRModule:
        """A module with `function` added or put in place of the one of that name."""
        if self.functions.get(_global(key)) is function:
            return self
        return replace(self, functions=FrozenDict({**self.functions, _global(key): function}))

    def with_functions(self, functions: Mapping[Any, BaseFunc]) -> IRModule:
        """A module with all of `functions` added or replaced."""
        pairs = {_global(k): f for k, f in functions.items()}
        return replace(self, functions=FrozenDict({**self.functions, **pairs}))

    def without_functions(self, keys: Any) -> IRModule:
        """A module without the functions named in `keys`."""
        gone = {_global(k) for k in keys}
        kept = {k: f for k, f in self.functions.items() if k not in gone}
        return (
            self if len(kept) == len(self.functions) else replace(self, functions=FrozenDict(kept))
        )

    def with_attr(self, key: str, value: Any) -> IRModule:
        """A module with one attribute set."""
        return replace(self, attrs=FrozenDict({**self.attrs, key: value}))

    def graph(self, function: str = "main", **options: Any) -> Any:
        """The picture of one graph function, an object that shows itself in the cell."""
        return display.load("mlcnb.view.graph:graph")(self, function=function, **options)  # type: ignore[call-arg]


def _global(key: str | GlobalVar) -> GlobalVar:
    return key if isinstance(key, GlobalVar) else GlobalVar(key)
