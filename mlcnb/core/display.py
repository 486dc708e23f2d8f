"""How an object comes to be shown: a table of views, filled from outside the IR.

    register_text(kind, "mlcnb.script.printer:text_of")     object -> str
    register_html(kind, "mlcnb.view.module:to_html")        object -> str

A view may be named by the string "module:function" and is then loaded when first used, which keeps
imports light and lets the IR know nothing of printing. A view that fails never hides the object.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mlcnb.core import options

View = Callable[[Any], str]
_text: dict[type, View | str] = {}
_html: dict[type, View | str] = {}


def register_text(kind: type, view: View | str) -> None:
    """Use `view` (or "module:function") for the text of objects of class `kind` and below."""
    _text[kind] = view


def register_html(kind: type, view: View | str) -> None:
    """Use `view` (or "module:function") for the static HTML of objects of class `kind` and below."""
    _html[kind] = view


def load(view: View | str) -> View:
    """The function behind a view or a "module:function" name."""
    if callable(view):
        return view
    module, _, name = view.partition(":")
    return getattr(importlib.import_module(module), name)


def _find(table: dict[type, View | str], obj: Any) -> View | None:
    for kind in type(obj).__mro__:
        if kind in table:
            return load(table[kind])
    return None


def text(obj: Any) -> str:
    """The text of `obj`: its registered view, or a plain form with its fields."""
    try:
        view = _find(_text, obj)
        return plain(obj) if view is None else view(obj)
    except Exception as error:  # a failing view never hides the object
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
    except Exception:  # a failing view never hides the object: the text remains
        if options.get("debug"):
            raise
        return None


def mimebundle(obj: Any) -> dict[str, str]:
    """What a notebook cell shows: text, and HTML beside it where there is one."""
    bundle = {"text/plain": text(obj)}
    if options.get("display") != "text":
        rich = html(obj)
        if rich is not None:
            bundle["text/html"] = rich
    return bundle
