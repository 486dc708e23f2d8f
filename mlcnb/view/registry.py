"""Which view shows an object: a table by class name, filled by the files of this folder.

    @shows("mlcnb.runtime.profile:Profile")
    def profile(p: Profile) -> list[Part]: ...

The class is named by a string, so a view costs no import of what it shows. `find` imports every
file of the folder once, so a new view is found by lying here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mlcnb.core.display import kinds_of
from mlcnb.view.parts import Part

View = Callable[[Any], Sequence[Part]]
_views: dict[str, View] = {}


def shows(*kinds: str) -> Callable[[View], View]:
    """Decorator: this function shows objects of these classes ("module:Class") and below."""

    def keep(view: View) -> View:
        for kind in kinds:
            _views[kind] = view
        return view

    return keep


@cache
def load_all() -> None:
    """Import every view (once)."""
    package = importlib.import_module("mlcnb.view")
    for info in pkgutil.iter_modules(package.__path__, "mlcnb.view."):
        importlib.import_module(info.name)


def find(obj: Any) -> View | None:
    """The view of the nearest class that has one, or None."""
    load_all()
    return next((_views[name] for _, name in kinds_of(obj) if name in _views), None)


def kinds() -> tuple[str, ...]:
    """Every class that has a view."""
    load_all()
    return tuple(sorted(_views))
