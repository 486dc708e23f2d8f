"""What a cell shows: every object as text and as static HTML that say the same thing.

    to_html(obj)     one sheet of HTML: no script, no style sheet, at most 200 kB
    to_text(obj)     the same as text; colours=True for a terminal
    to_markdown(obj) the same for GitHub

One file for each family of objects, each with functions from an object to parts (`view.parts`).
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import display
from mlcnb.view import as_html, as_markdown, as_text
from mlcnb.view.highlight import code
from mlcnb.view.registry import find

__all__ = ["cell_of", "html_of", "text_of", "to_html", "to_markdown", "to_text"]


def to_html(obj: Any) -> str:
    """The static HTML of any object; of one that has no view, its repr."""
    return html_of(obj) or as_html.to_html([code(repr(obj))])


def to_text(obj: Any, colours: bool = False) -> str:
    """The text of any object as a cell shows it, with ANSI colours if wanted."""
    view = find(obj)
    return repr(obj) if view is None else as_text.to_text(view(obj), colours)


def to_markdown(obj: Any) -> str:
    """The Markdown of any object, as GitHub shows it; of one that has no view, its repr."""
    view = find(obj)
    return as_markdown.to_markdown([code(repr(obj))] if view is None else view(obj))


def html_of(obj: Any) -> str | None:
    """The static HTML of an object, or None where there is no view of it."""
    view = find(obj)
    return None if view is None else as_html.to_html(view(obj))


def text_of(obj: Any) -> str:
    """The text of an object by its view, or a plain form: what its repr may call."""
    view = find(obj)
    return display.plain(obj) if view is None else as_text.to_text(view(obj))


def cell_of(obj: Any) -> str:
    """The text of an object in a cell: by its view, or its repr."""
    view = find(obj)
    return repr(obj) if view is None else as_text.to_text(view(obj))
