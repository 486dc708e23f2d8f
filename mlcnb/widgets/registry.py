"""Which page explores an object: a table by class name, filled by the files of this folder.

@explores("mlcnb.tir.schedule.schedule:Schedule")
class Explorer(Interactive):
    def __init__(self, sch, **options): ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from mlcnb.core.display import kinds_of
from mlcnb.core.errors import MLCError
from mlcnb.view.words import listed
from mlcnb.widgets.base import Interactive

Page = TypeVar("Page", bound=Callable[..., Interactive])
_pages: dict[str, Callable[..., Interactive]] = {}


def explores(*kinds: str) -> Callable[[Page], Page]:
    """Decorator: this class (or function) makes the page of objects of these classes and below."""

    def keep(page: Page) -> Page:
        for kind in kinds:
            _pages[kind] = page
        return page

    return keep


@cache
def load_all() -> None:
    """Import every page (once)."""
    package = importlib.import_module("mlcnb.widgets")
    for info in pkgutil.iter_modules(package.__path__, "mlcnb.widgets."):
        importlib.import_module(info.name)


def kinds() -> tuple[str, ...]:
    """Every class that has a page."""
    load_all()
    return tuple(sorted(_pages))


def explore(obj: Any, **options: Any) -> Interactive:
    """The page of an object, where it can be stepped through and asked.

    Args:
        obj: a Schedule, the result of a pipeline, a kernel, a module, an executable, a refused
            step, …; a page is given back as it is.
        options: as the page of this class takes them.

    Raises:
        MLCError: there is no page for objects of this class.
    """
    page = page_of(obj, **options)
    if page is not None:
        return page
    known = listed(sorted({name.partition(":")[2] for name in _pages}), 12)
    raise MLCError(
        f"explore: there is no page for a {type(obj).__name__}",
        hint=f"give one of {known}; or mlcnb.export(obj, 'page.html') for its static view",
    )


def page_of(obj: Any, **options: Any) -> Interactive | None:
    """The page of an object; None where its class has none."""
    if isinstance(obj, Interactive):
        return obj
    load_all()
    found = next((_pages[name] for _, name in kinds_of(obj) if name in _pages), None)
    return None if found is None else found(obj, **options)
