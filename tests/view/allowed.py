"""What HTML and SVG of ours may hold, and what every reader can read.

check_html(html)    only listed tags, attributes and styles, well nested; pictures checked too;
                    on a light page and on a dark one, with our style sheet and without it, every
                    text has a contrast of 4.5:1 or more against what is painted behind it
check_svg(svg)      only shapes and text: nothing that runs, links or loads
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from html.parser import HTMLParser
from xml.etree import ElementTree

from mlcnb.core import render

LIMIT = 200_000
VOID = {"br", "img", "wbr"}
TAGS = {
    *("a", "div", "span", "b", "i", "br", "code", "pre", "img", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "wbr"),
}
ATTRIBUTES = {
    "a": {"tabindex", "role", "aria-label", "style"},
    "img": {"alt", "src", "style", "width"},
    "details": {"open", "style"},
    "td": {"style", "colspan", "title"},
    "th": {"style", "colspan", "title"},
}
STYLE = re.compile(r"[a-z-]+:([#\w.,% -]|rgba\(\d+,\d+,\d+,[\d.]+\))+")
SVG = "{http://www.w3.org/2000/svg}"
SVG_TAGS = {
    "svg": {"class", "role", "x", "y", "width", "height", "viewBox"},
    "title": set(),
    "style": set(),
    "g": {"transform", "font-family", "stroke", "fill", "font-size", "text-anchor"},
    "rect": {"class", "x", "y", "width", "height", "rx", "fill", "stroke"},
    "path": {"class", "d", "fill", "stroke", "stroke-width"},
    "text": {"class", "x", "y", "fill", "font-size", "font-weight", "text-anchor"},
}
PATH = re.compile(r"[MLHVCAZhvlacz0-9 .-]*")
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


Colour = tuple[float, float, float]
#: ink and paper of JupyterLab's two themes
PAGES: tuple[tuple[Colour, Colour], ...] = (
    ((33, 33, 33), (255, 255, 255)),
    ((224, 224, 224), (17, 17, 17)),
)
#: class -> its colours on a light page and on a dark one
NAMED = {
    f"mlc-{name}": (colours[0], colours[1])
    for name, colours in [
        *((render.LETTERS[kind], render.COLOURS[kind]) for kind in render.LETTERS),
        *render.WORDS.items(),
    ]
}


#: ink and paper, in each of the ways that a view may be shown
Looks = tuple[tuple[Colour, Colour], ...]
#: a page's look, its number, and whether our style sheet is there
SHOWN = [(PAGES[n], n, styled) for n in range(len(PAGES)) for styled in (False, True)]


@lru_cache(maxsize=4096)
def inside(looks: Looks, named: str, background: str, colour: str, opacity: str) -> Looks:
    """How an element is shown that is in one that is shown so."""
    found = []
    for (ink, paper), (_, page, styled) in zip(looks, SHOWN, strict=True):
        paper = painted(background, paper)
        own = NAMED[named][page] if styled and named in NAMED else ""
        ink = painted(colour, painted(own, ink))
        found.append((mixed(ink, paper, float(opacity or 1)), paper))
    return tuple(found)


@lru_cache(maxsize=4096)
def least(looks: Looks) -> float:
    """The smallest contrast of ink and paper."""
    return min(contrast(ink, paper) for ink, paper in looks)


class _Reader(HTMLParser):
    """Walks the HTML and refuses what is not on the lists."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        #: open elements: tag, and ink and paper on each page, with our sheet and without it
        self.open: list[tuple[str, Looks]] = [("page", tuple(look for look, _, _ in SHOWN))]
        self.texts: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style":
            assert not attrs
            self.open.append((tag, self.open[-1][1]))
            return
        assert tag in TAGS, f"<{tag}>"
        given = dict(attrs)
        assert len(given) == len(attrs), f"<{tag}> has an attribute twice"
        extra = given.keys() - ATTRIBUTES.get(tag, {"style", "title"}) - {"class"}
        assert not extra, f"<{tag}> has {extra}"
        assert tag != "a" or given["tabindex"] == "0"
        if tag == "img":
            self.picture(given)
        styles = dict(self.style(part) for part in (given.get("style") or "").split(";") if part)
        named = given.get("class")
        assert named in (None, render.VIEW, *NAMED), f"class {named!r}"
        if tag not in VOID:
            own = (styles.get(name, "") for name in ("background", "color", "opacity"))
            self.open.append((tag, inside(self.open[-1][1], named or "", *own)))

    def style(self, part: str) -> tuple[str, str]:
        assert STYLE.fullmatch(part), f"style {part!r}"
        name, _, value = part.partition(":")
        return name, value

    def picture(self, given: dict[str, str | None]) -> None:
        start = "data:image/svg+xml;base64,"
        source = given["src"] or ""
        assert source.startswith(start)
        assert given["alt"]
        svg = base64.b64decode(source.removeprefix(start), validate=True).decode()
        check_svg(svg)
        self.pictures.append(svg)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self.open[-1][0] == "style":
            assert f"<style>{data}</style>" == render.SHEET
            return
        assert not INVISIBLE.search(data), f"hidden characters in {data[:80]!r}"
        if data.strip():
            tag, looks = self.open[-1]
            assert least(looks) >= 4.5, f"{looks} in <{tag}>: {data[:40]!r}"
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def check_html(html: str, limit: int = LIMIT) -> str:
    """Assert that the HTML is allowed; gives its text."""
    assert len(html.encode()) <= limit, f"{len(html.encode()):,} bytes"
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [tag for tag, _ in reader.open] == ["page"], "elements left open"
    return "".join(reader.texts)


def pictures(html: str) -> list[str]:
    """The SVGs in the HTML."""
    reader = _Reader()
    reader.feed(html)
    return reader.pictures


def check_svg(svg: str) -> list[str]:
    """Assert that the SVG is allowed; gives its texts."""
    root = ElementTree.fromstring(svg)
    texts = []
    for element in root.iter():
        assert element.tag.startswith(SVG), element.tag
        tag = element.tag.removeprefix(SVG)
        assert tag in SVG_TAGS, f"<{tag}>"
        extra = element.attrib.keys() - SVG_TAGS[tag]
        assert not extra, f"<{tag}> has {extra}"
        assert PATH.fullmatch(element.get("d", "")), element.get("d")
        if tag == "style":
            assert not re.search(r"url|@|expression|\\|<", element.text or "")
        elif element.text:
            assert not INVISIBLE.search(element.text), f"hidden characters in {element.text[:80]!r}"
            texts.append(element.text)
    return texts


def painted(colour: str, under: Colour) -> Colour:
    """A CSS colour painted over another one; none, or "inherit", leaves it."""
    if colour in ("", "inherit"):
        return under
    if colour.startswith("rgba("):
        *parts, share = (float(x) for x in colour[5:-1].split(","))
        return mixed((parts[0], parts[1], parts[2]), under, share)
    assert re.fullmatch(r"#[0-9a-f]{6}", colour), colour
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def mixed(over: Colour, under: Colour, share: float) -> Colour:
    """`share` of a colour over another one."""
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(over, under, strict=True))
    return red, green, blue


def contrast(a: Colour | str, b: Colour | str) -> float:
    """The contrast of two colours, as WCAG 2 defines it: 1 to 21."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour | str) -> float:
    parts = (x / 255 for x in (painted(colour, (0, 0, 0)) if isinstance(colour, str) else colour))
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
