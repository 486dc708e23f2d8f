"""Packages whose names are loaded when first used: `import mlcnb` stays light.

__getattr__, __dir__, __all__ = attach(__name__, {"mlcnb.tir.stmt": "For Block"}, ("transform",))

A package may be known by a second name: `alias("mlcnb.topi", "mlcnb.compat.topi")`, and
`import mlcnb.topi.nn` is the module `mlcnb.compat.topi.nn`, not a copy of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
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


class _SecondNames(MetaPathFinder, Loader):
    """Finds modules by second names: under each stands the module itself, imported once."""

    def __init__(self) -> None:
        self.real: dict[str, str] = {}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """A spec where `fullname`, or a package that it lies in, has a first name."""
        second, rest = fullname, ""
        while second and second not in self.real:
            second, _, last = second.rpartition(".")
            rest = f".{last}{rest}"
        return ModuleSpec(fullname, self, origin=self.real[second] + rest) if second else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the first name."""
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already, and keeps the spec of its first name."""
        second = module.__spec__
        assert second is not None
        module.__spec__ = second.loader_state


_second_names = _SecondNames()


def alias(second: str, first: str) -> None:
    """Make a module, and all that lies in it, known by a second name."""
    _second_names.real[second] = first
    if _second_names not in sys.meta_path:
        sys.meta_path.insert(0, _second_names)


def attach(
    package: str,
    names: Mapping[str, str],
    submodules: Iterable[str] = (),
    aside: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` for a package.

    Args:
        package: the package's `__name__`.
        names: module -> the names it brings, separated by spaces; `public=real` renames.
        submodules: names of submodules that are public.
        aside: names of either kind that are not offered (by dir, `import *`): other spellings,
            and what only other packages use.
        elsewhere: package -> the submodules that lie there and are known here, too, as
            attributes and as imports; `public=real` renames.
    """
    table = {}
    for module, listed in names.items():
        for entry in listed.split():
            public, _, real = entry.partition("=")
            table[public] = (module, real or public)
    modules = {name: f"{package}.{name}" for name in submodules}
    for folder, listed in (elsewhere or {}).items():
        for entry in listed.split():
            public, _, real = entry.partition("=")
            modules[public] = f"{folder}.{real or public}"
            alias(f"{package}.{public}", modules[public])
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
