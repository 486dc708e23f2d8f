"""How an object comes to be shown: a table of views, filled from outside the IR.

    register_text(kind, "mlcnb.script.printer:text_of")     object -> str    its repr
    register_cell(kind, "mlcnb.view:text_of")               object -> str    its text in a cell
    register_html(kind, "mlcnb.view:html_of")               object -> str or None

A view may be named by the string "module:function" and is then loaded when first used, which keeps
imports light and lets the IR know nothing of printing; its class may be named "module:Class" for
the same reason. A view that fails never hides the object.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.core import options
from mlcnb.core.cells import shell

View = Callable[[Any], Any]
#: a class, or "module:Class" for one that need not be imported
Kind = type | str
Table = dict[Kind, View | str]
_text: Table = {}
_cell: Table = {}
_html: Table = {}


def register_text(kind: Kind, view: View | str) -> None:
    """Use `view` (or "module:function") for the text of objects of class `kind` and below."""
    _text[kind] = view


def register_cell(kind: Kind, view: View | str) -> None:
    """Use `view` for the text in a cell, where that is not the whole text of the object."""
    _cell[kind] = view


def register_html(kind: Kind, view: View | str) -> None:
    """Use `view` (or "module:function") for the static HTML of objects of class `kind`."""
    _html[kind] = view


def load(view: View | str) -> View:
    """The function behind a view or a "module:function" name."""
    if callable(view):
        return view
    module, _, name = view.partition(":")
    return getattr(importlib.import_module(module), name)


def kinds_of(obj: Any) -> Iterator[tuple[type, str]]:
    """The classes of an object, nearest first, each with its name "module:Class"."""
    for kind in type(obj).__mro__:
        yield kind, f"{kind.__module__}:{kind.__qualname__}"


def _find(table: Table, obj: Any) -> View | None:
    for kind, name in kinds_of(obj):
        view = table.get(kind) or table.get(name)
        if view is not None:
            return load(view)
    return None


def text(obj: Any) -> str:
    """The text of `obj`: its registered view, or a plain form with its fields."""
    try:
        view = _find(_text, obj)
        return plain(obj) if view is None else view(obj)
    except Exception as error:  # noqa: BLE001 (a failing view never hides the object)
        return f"{plain(obj)}  # not printable: {type(error).__name__}: {error}"


def plain(obj: Any) -> str:
    """A one-line form that always works: class name and the fields that are short."""
    parts = []
    for name in getattr(obj, "child_fields", ()):
        value = getattr(obj, name)
        if isinstance(value, str | int | float | bool):
            parts.append(f"{name}={value!r}")
    return f"{type(obj).__name__}({', '.join(parts)})"


def html(obj: Any) -> str | None:
    """The static HTML of `obj`, or None where no view is registered (text is shown then)."""
    try:
        view = _find(_html, obj)
        return None if view is None else view(obj)
    except Exception:
        if options.get("debug"):
            raise
        return None


def cell(obj: Any) -> str:
    """The text of `obj` in a notebook cell: the short form of what is long, else its text."""
    try:
        view = _find(_cell, obj)
        return text(obj) if view is None else view(obj)
    except Exception:
        if options.get("debug"):
            raise
        return text(obj)


def mimebundle(obj: Any) -> dict[str, Any]:
    """What a notebook cell shows: text, and HTML beside it where there is one and it is wanted.

    With the option "display" at "widget" it is the page of `mlcnb.explore`, where there is one.
    """
    page = _page(obj) if options.get("display") == "widget" else None
    if page is not None:
        return page._repr_mimebundle_()
    rich = html(obj) if wants_html() else None
    bundle = {"text/plain": cell(obj)}
    return bundle if rich is None else {**bundle, "text/html": rich}


#: "module:function" that gives the page of an object, or None; set by the package
page_view: str | None = None


def _page(obj: Any) -> Any:
    try:
        return None if page_view is None else load(page_view)(obj)
    except Exception:
        if options.get("debug"):
            raise
        return None


class Shown:
    """Base of objects that are printed, and shown by a cell, by their views."""

    __slots__ = ()

    def __repr__(self) -> str:
        return text(self)

    def to_html(self) -> str:
        """The static view: one sheet of HTML of at most 200 kB, without scripts and style sheets.

        It is what a cell shows, whatever `mlcnb.display` says, for a page or a report of one's own.
        Of values and buffers it has shapes and dtypes. A view that fails gives the text: nothing is
        raised.
        """
        return load("mlcnb.view:to_html")(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self)


def wants_html() -> bool:
    """What the option "display" says: no HTML for "text", and none in a terminal for "auto"."""
    mode = options.get("display")
    return mode != "text" and not (mode == "auto" and in_terminal())


def in_notebook() -> bool:
    """True where an IPython kernel runs this code (a terminal IPython is none)."""
    found = shell()
    return found is not None and found.has_trait("kernel")


def in_terminal() -> bool:
    """True in IPython's terminal shell."""
    found = shell()
    return found is not None and not found.has_trait("kernel")
