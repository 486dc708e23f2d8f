"""Functions for classes, found in the files of a folder by the text of their decorators.

    @shows("mlcnb.runtime.profile:Profile")          views = Found("mlcnb.view", "shows")
    def profile(p): ...                              views.of(profile)    imports that file only

The classes stand in the decorator as plain strings, so which file has the function for a class is
read without running any; what a decorator has told is known anyway.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from mlcnb.core.display import kinds_of

Made = TypeVar("Made", bound=Callable[..., Any])


class Found:
    """What the files of a package have for classes, each "module:Class".

    Args:
        package: its name; the folders in it are looked into.
        decorator: the name that stands above the functions there.
    """

    def __init__(self, package: str, decorator: str) -> None:
        self.package, self.decorator = package, decorator
        self.known: dict[str, Callable[..., Any]] = {}

    def keep(self, *kinds: str) -> Callable[[Made], Made]:
        """Decorator: this function is for objects of these classes and below."""

        def kept(made: Made) -> Made:
            self.known.update(dict.fromkeys(kinds, made))
            return made

        return kept

    def of(self, obj: Any) -> Callable[..., Any] | None:
        """The function for the nearest class of an object that has one, or None."""
        for _, kind in kinds_of(obj):
            if kind not in self.known and kind in self._files:
                importlib.import_module(self._files[kind])
            if kind in self.known:
                return self.known[kind]
        return None

    def kinds(self) -> tuple[str, ...]:
        """Every class that has one."""
        return tuple(sorted({*self.known, *self._files}))

    @cached_property
    def _files(self) -> dict[str, str]:
        """Class -> the module that has its function."""
        module = importlib.import_module(self.package)
        above = re.compile(rf"^@{self.decorator}\(([^)]*)\)", re.MULTILINE)
        return {
            kind: ".".join((self.package, *file.relative_to(folder).with_suffix("").parts))
            for folder in map(Path, module.__path__)
            for file in sorted(folder.rglob("*.py"))
            for arguments in above.findall(file.read_text("utf-8"))
            for kind in re.findall(r'"([^"]+)"', arguments)
        }
