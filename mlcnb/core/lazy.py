r"""Packages whose names are loaded when first used: `import mlcnb` stays light.

__getattr__, __dir__, __all__ = attach(__name__, {"mlcnb.tir.stmt": "For Block"}, ("transform",))

A package whose files bring one class each finds them by lying there:
`attach(__name__, {}, classes=r"\w*Pass")`; it gets its `__all__` by `__getattr__` then.

A package may be known by a second name: `alias("mlcnb.topi", "mlcnb.compat.topi")`, and
`import mlcnb.topi.nn` is the module `mlcnb.compat.topi.nn`, not a copy of it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from mlcnb.core import above
from mlcnb.core.text import suggestion


class _Package(ModuleType):
    """A package whose names are not hidden by the submodule of the same name that brings them.

    Importing `tir.transform.lower` would else put that module in the place of the function `lower`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self.__dict__["_lazy_names"]):
            super().__setattr__(name, value)


def missing(owner: str, name: str, known: Iterable[str]) -> str:
    """What an AttributeError says, with what to write instead, or the name probably meant."""
    near = None
    if not name.startswith("_"):  # Python asks for __path__ and its like of every module
        near = above.ask("habits").get(owner, {}).get(name) or suggestion(name, known)
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
    classes: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    r"""`__getattr__`, `__dir__` and `__all__` for a package.

    Args:
        package: the package's `__name__`.
        names: module -> the names it brings, separated by spaces; `public=real` renames.
        submodules: names of submodules that are public.
        aside: names of either kind that are not offered (by dir, `import *`): other spellings,
            and what only other packages use.
        elsewhere: package -> the submodules that lie there and are known here, too, as
            attributes and as imports; `public=real` renames.
        classes: what a class's bases say where it is public by lying in the package's folder, as
            a regular expression: `r"\w*Pass"` finds `class FuseOps(FunctionPass)`. The files are
            read when a name is looked for that no table has.
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

    @cache
    def lying_here() -> dict[str, str]:
        return {} if classes is None else dict(_classes_in(here, classes))

    def load(name: str) -> Any:
        if name in table:
            module, real = table[name]
            value = getattr(importlib.import_module(module), real)
        elif name == "__all__" and classes is not None:
            return offered()
        elif name[:1].isupper() and name in lying_here():
            value = getattr(importlib.import_module(lying_here()[name]), name)
        elif name in modules:
            value = importlib.import_module(modules[name])
        elif f"{package}.{name}" in _second_names.real:
            value = importlib.import_module(f"{package}.{name}")
        elif name.startswith("__") or (
            "__path__" in here.__dict__ and find_spec(f"{package}.{name}")  # it is imported then
        ):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        else:
            raise AttributeError(missing(f"module {package!r}", name, everything()))
        setattr(sys.modules[package], name, value)
        return value

    def everything() -> list[str]:
        return sorted({*table, *modules, *lying_here()})

    def offered() -> list[str]:
        return sorted({*everything()} - {*aside})

    return load, offered, offered() if classes is None else []


def _classes_in(package: ModuleType, bases: str) -> Iterator[tuple[str, str]]:
    """Public classes with such bases, and the modules that define them, by the files' text."""
    head = re.compile(rf"^class ([A-Z]\w*)\(\s*(?:\w+\.)?{bases}\b", re.MULTILINE)
    for folder in map(Path, package.__path__):
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder).with_suffix("").parts
            module = ".".join((package.__name__, *inside)).removesuffix(".__init__")
            for name in head.findall(path.read_text(encoding="utf-8")):
                yield name, module
