"""HTML that is safe by construction: texts are escaped; tags, attributes and styles are listed.

    tag("b", "a < b")                            <b>a &lt; b</b>
    tag("td", "x", style=css(width="10px"))      <td style="width:10px">x</td>
    table(rows)   details("title", body)   pre(text)   img_svg(svg, "what it shows")

Only what survives JupyterLab's sanitiser in an untrusted notebook and reads well without styles (as
on GitHub) can be built: no <svg>, <style>, <script>, links, ids or CSS variables. The only classes
are those of the one style sheet (`core.render.SHEET`), which adds colours where it may stay.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from mlcnb.core import render
from mlcnb.view.words import visible

TAGS = frozenset(
    "a b br code details div i img pre span summary table tbody td th thead tr wbr".split(),
)
#: attribute -> the tags that may have it ("*": all)
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "class": ("*",),
    "style": ("*",),
    "title": ("*",),
    "open": ("details",),
    "colspan": ("td", "th"),
    "tabindex": ("a",),
    "role": ("a",),
    "aria-label": ("a",),
    "alt": ("img",),
    "src": ("img",),
    "width": ("img",),
}
STYLES = frozenset(
    "background border border-collapse border-left border-radius color display flex flex-wrap "
    "font-family font-size font-weight line-height margin max-height max-width min-width opacity "
    "overflow overflow-wrap overflow-x padding text-align text-decoration vertical-align "
    "white-space width".split()
)
CLASSES = frozenset((render.VIEW, *(f"mlc-{name}" for name in render.WORDS)))
SVG_SOURCE = "data:image/svg+xml;base64,"
_VALUE = re.compile(r"([#\w.,% -]|rgba\([\d.,]+\))*")
_EMPTY = frozenset(("br", "img", "wbr"))
#: letters of a word that stays whole, and where a longer one may go over two lines
_WHOLE = 24
_LONG = re.compile(rf"\S{{{_WHOLE + 1},}}")
_JOINT = re.compile(r"(?<=[\w\])][_/.:,])(?=\w)")


class Html(str):
    """Text that is HTML already: put in as it is, where other text is escaped."""

    __slots__ = ()


def join(parts: Iterable[str], separator: str = "") -> Html:
    """Pieces of HTML (or texts, which are escaped) one after the other."""
    return Html(escape(separator).join(escape(part) for part in parts))


def escape(text: str) -> Html:
    """The text as HTML; control characters are made visible. What is HTML already stays."""
    return text if isinstance(text, Html) else Html(html.escape(visible(text), quote=True))


def breakable(text: str) -> Html:
    """The text as HTML; where it is narrow, long names go over lines at their joints."""
    if isinstance(text, Html):
        return text

    def broken(word: re.Match[str]) -> Html:
        return join(_JOINT.split(word[0]), Html("<wbr>"))

    pieces, at = [], 0
    for word in _LONG.finditer(text):
        pieces += [escape(text[at : word.start()]), broken(word)]
        at = word.end()
    return Html(join([*pieces, escape(text[at:])]).replace(escape("->"), _ARROW))


def tag(name: str, *children: str, **attributes: Any) -> Html:
    """An element. Attributes that are None or False are left out.

    Raises:
        ValueError: a tag or an attribute that is not on the list.
    """
    if name not in TAGS:
        raise ValueError(f"tag <{name}> does not survive: there are {', '.join(sorted(TAGS))}")
    given = "".join(
        _attribute(name, key, value)
        for key, value in attributes.items()
        if value is not None and value is not False and value != ""
    )
    if name in _EMPTY:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def _attribute(name: str, key: str, value: Any) -> str:
    tags = ATTRIBUTES.get(key, ())
    is_ours = key != "class" or value in CLASSES
    if not is_ours or ("*" not in tags and name not in tags):
        raise ValueError(f"<{name}> has no attribute {key!r} that survives")
    if key == "src" and not str(value).startswith(SVG_SOURCE):
        raise ValueError("an image has its data in it")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


@lru_cache(maxsize=256)
def css(**properties: str) -> str:
    """`css(color="#24292f", font_size="12px")`: an inline style.

    Raises:
        ValueError: a property or a value that does not survive.
    """
    parts = []
    for key, value in properties.items():
        name = key.replace("_", "-")
        if name not in STYLES or not _VALUE.fullmatch(value):
            raise ValueError(f"style {name}:{value} does not survive")
        parts.append(f"{name}:{value}")
    return ";".join(parts)


#: an arrow of two characters, which stay together
_ARROW = tag("span", "->", style=css(white_space="nowrap"))


def table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    styles: Sequence[str] = (),
    style: str = "",
    row_style: str = "",
    head_styles: Sequence[str] = (),
) -> Html:
    """A table; `styles` gives each column its cell style, `head_styles` that of its title."""

    def row(kind: str, cells: Sequence[str]) -> Html:
        own = head_styles if kind == "th" and head_styles else styles
        given = [*own, *[""] * (len(cells) - len(own))]
        # a header cell that says nothing is no header to a screen reader
        kinds = (kind if cell else "td" for cell in cells)
        made = (tag(k, c, style=s) for k, c, s in zip(kinds, cells, given, strict=False))
        return tag("tr", *made, style=row_style)

    head = [tag("thead", row("th", header))] if header else []
    body = tag("tbody", *(row("td", cells) for cells in rows))
    return tag("table", *head, body, style=style)


def details(title: str, *body: str, is_open: bool = False, style: str = "") -> Html:
    """Something folded under its title."""
    return tag("details", tag("summary", title), *body, open=is_open, style=style)


def scrolled(*inside: str) -> Html:
    """What an element that scrolls has in it, so that Tab reaches it and arrows move it."""
    return tag("a", *inside, **render.REACHED)


def pre(text: str) -> Html:
    """Text as it is, in fixed width."""
    return tag("pre", text, style=css(font_family="monospace"))


def img_svg(svg: str, alt: str, style: str = "") -> Html:
    """An SVG picture, with the text that stands for it."""
    data = base64.b64encode(svg.encode()).decode()
    return tag("img", alt=alt, src=f"{SVG_SOURCE}{data}", style=style)
