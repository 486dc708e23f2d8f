"""Which page explores an object: a table by class name, filled by the files of this folder.

above a class: @explores("mlcnb.tir.schedule.schedule:Schedule")      its __init__(sch, **options)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.found import Found
from mlcnb.core.text import kind_of
from mlcnb.view.words import listed
from mlcnb.widgets.base import Interactive

_pages = Found("mlcnb.widgets", "explores")
#: decorator: this class (or function) makes the page of objects of these classes and below
explores = _pages.keep
#: every class that has a page
kinds = _pages.kinds


def explore(obj: Any, **options: Any) -> Interactive:
    """The page of an object, where it can be stepped through and asked.

    Of values and buffers it tells shape and dtype.

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
    known = listed(sorted({name.partition(":")[2] for name in kinds()}), 12)
    raise MLCError(
        f"explore: there is no page for {kind_of(obj)}",
        hint=f"give one of {known}; or mlcnb.export(obj, 'page.html') for its static view",
    )


def page_of(obj: Any, **options: Any) -> Interactive | None:
    """The page of an object; None where its class has none."""
    if isinstance(obj, Interactive):
        return obj
    found = _pages.of(obj)
    return None if found is None else found(obj, **options)
