"""IRModule: the functions of a program, graph functions and loop functions side by side.

mod["main"]                      a function, by name or GlobalVar
mod.with_function("main", f)     a new module; this one stays as it is
mod["main"] = f                  in place, as `update_func`: this object names other functions now

Passes, schedules and executables take a module as a value, and some keep it: the steps of a trace,
a schedule's history, what was compiled. Each says so (`held_by`), and when the module is edited in
place they are given what it was: an edit changes what this object names, and nothing that was made
of it before. The functions themselves are shared and never change.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import EMPTY, FrozenDict, node, replace
from mlcnb.core.text import kind_of, suggestion
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.function import Attributed, BaseFunc

F = TypeVar("F", bound=BaseFunc)


@node
class IRModule(Attributed):
    """Functions by their `GlobalVar` (or name), attributes, and global infos (such as virtual
    devices).

    `mod["main"]`, or `mod[global_var]`, is one function; what is stored is not checked, passes and
    `compile` do that: shapes, dtypes and scopes by `well_formed`.

    Raises:
        MLCError: the module has no function of that name.
    """

    functions: FrozenDict = EMPTY
    attrs: FrozenDict = EMPTY
    global_infos: FrozenDict = EMPTY

    def __post_init__(self) -> None:
        given: Any = self.functions or {}
        if type(given) is not FrozenDict or any(isinstance(name, str) for name in given):
            pairs = {_global(name): function for name, function in given.items()}
            object.__setattr__(self, "functions", FrozenDict(pairs))
        for name in ("attrs", "global_infos"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, EMPTY)

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
            name = _global(key).name_hint
            raise MLCError(
                f"no function {name!r} in the module: it has {names}",
                hint=suggestion(name, [v.name_hint for v in self.functions]),
            )
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

    def of_kind(self, kind: type[F]) -> dict[GlobalVar, F]:
        """The functions of one class, in order: `mod.of_kind(PrimFunc)`."""
        return {key: f for key, f in self.functions.items() if isinstance(f, kind)}

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
        return self.with_functions({key: function})

    def with_functions(self, functions: Mapping[Any, BaseFunc]) -> IRModule:
        """A module with all of `functions` added or replaced; itself where it has them already."""
        pairs = {_global(k): f for k, f in functions.items()}
        if all(self.functions.get(k) is f for k, f in pairs.items()):
            return self
        return replace(self, functions=FrozenDict({**self.functions, **pairs}))

    def without_functions(self, keys: Any) -> IRModule:
        """A module without the functions named in `keys`."""
        gone = {_global(k) for k in keys}
        kept = {k: f for k, f in self.functions.items() if k not in gone}
        return (
            self if len(kept) == len(self.functions) else replace(self, functions=FrozenDict(kept))
        )

    def get_attr(self, key: str) -> Any:
        """One attribute, or None."""
        return self.attrs.get(key)

    # in place ------------------------------------------------------------------------------------

    def clone(self) -> IRModule:
        """Another module of the same functions, which are shared; it can be edited by itself."""
        return IRModule(self.functions, self.attrs, self.global_infos)

    def held_by(self, holder: Any, *fields: str) -> IRModule:
        """`holder` keeps this module as it is now in these attributes.

        When this object is edited, they become a module of the contents from before.
        """
        _holders.setdefault(self, []).append((ref(holder), fields))
        return self

    def update_func(self, var: str | GlobalVar, func: BaseFunc) -> None:
        """Put a function in place of the one that `var` names, or add it: in this very object.

        Raises:
            MLCError: `func` is no function.
        """
        self.update({var: func})

    __setitem__ = update_func

    def __delitem__(self, key: str | GlobalVar) -> None:
        self[key]
        self._edit(functions=FrozenDict(self.without_functions([key]).functions))

    def update(self, other: Mapping[Any, BaseFunc] | IRModule) -> None:
        """Put all functions of another module, or of a table, into this very object."""
        given = other.functions if isinstance(other, IRModule) else other
        for key, func in given.items():
            if not isinstance(func, BaseFunc):
                raise MLCError(
                    f"{_global(key).name_hint!r} is to become {kind_of(func)}",
                    hint="a module holds functions: relax.Function, tir.PrimFunc, relax.ExternFunc",
                )
        self._edit(functions=self.with_functions(given).functions)

    def update_global_info(self, name: str, infos: Any) -> None:
        """Set one list of global infos, such as the virtual devices, in this very object."""
        self._edit(global_infos=FrozenDict({**self.global_infos, name: tuple(infos)}))

    def _edit(self, **changes: FrozenDict) -> None:
        """Let this object name other contents; what keeps it keeps the contents from before."""
        holders = [(h, fields) for r, fields in _holders.pop(self, ()) if (h := r()) is not None]
        if holders:
            before = self.clone()
            for holder, fields in holders:
                for field in fields:
                    if getattr(holder, field) is self:
                        object.__setattr__(holder, field, before)
                before.held_by(holder, *fields)
        for field, value in changes.items():
            object.__setattr__(self, field, value)

    def graph(self, function: str = "main", **options: Any) -> Any:
        """The picture of one graph function, an object that shows itself in the cell."""
        return display.load("mlcnb.view.graph:graph")(self, function=function, **options)  # type: ignore[call-arg]


#: module -> what keeps it, and in which attributes
_holders: WeakKeyDictionary[IRModule, list[tuple[ref[Any], tuple[str, ...]]]] = WeakKeyDictionary()


def _global(key: str | GlobalVar) -> GlobalVar:
    return key if isinstance(key, GlobalVar) else GlobalVar(key)
