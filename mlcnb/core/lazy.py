"""Packages whose names are loaded when first used: `import mlcnb` stays light.

__getattr__, __dir__, __all__ = attach(__name__, {"mlcnb.tir.stmt": "For Block"}, ("transform",))
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from mlcnb.core.text import suggestion


class _Package(ModuleType):
    """A package whose names are not hidden by the submodule of the same name that brings them.

    Importing `tir.transform.lower` would else put that module in the place of the function `lower`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if not (is_submodule and name in self.__dict__["_lazy_names"]):
            super().__setattr__(name, value)


def missing(owner: str, name: str, known: Iterable[str]) -> str:
    """What an AttributeError says, with the name that was probably meant."""
    near = None if name.startswith("_") else suggestion(name, known)
    return f"{owner} has no attribute {name!r}{f': {near}' if near else ''}"


def attach(
    package: str,
    names: Mapping[str, str],
    submodules: Iterable[str] = (),
    aside: Iterable[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` for a package.

    Args:
        package: the package's `__name__`.
        names: module -> the names it brings, separated by spaces; `public=real` renames.
        submodules: names of submodules that are public.
        aside: names of either kind that are not offered (by dir, `import *`): other spellings,
            and what only other packages use.
    """
    table = {}
    for module, listed in names.items():
        for entry in listed.split():
            public, _, real = entry.partition("=")
            table[public] = (module, real or public)
    modules = {name: f"{package}.{name}" for name in submodules}
    here = sys.modules[package]
    here.__class__ = _Package
    here.__dict__["_lazy_names"] = frozenset(table)

    def load(name: str) -> Any:
        if name in table:
            module, real = table[name]
            value = getattr(importlib.import_module(module), real)
        elif name in modules:
            value = importlib.import_module(modules[name])
        else:
            raise AttributeError(missing(f"module {package!r}", name, everything))
        setattr(sys.modules[package], name, value)
        return value

    everything = sorted({*table, *modules})
    offered = sorted({*everything} - {*aside})
    return load, lambda: offered, offered
