"""Parts as static HTML, within a budget of bytes.

Ink and paper are those of the page around, light or dark; what has a colour of its own has it of
the style sheet, where there may be one. Where styles are dropped (GitHub) tables, folds and
listings stay. What does not fit side by side stands one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlcnb.core import render
from mlcnb.view import parts as p
from mlcnb.view.as_text import bar
from mlcnb.view.html import (
    Html,
    breakable,
    css,
    details,
    escape,
    img_svg,
    join,
    scrolled,
    table,
    tag,
)
from mlcnb.view.words import clip, size

#: bytes of one view
LIMIT = 200_000
#: bytes kept for what closes the page
_RESERVE = 1500
_NONE, _LINE = "rgba(0,0,0,0)", f"1px solid {render.LINE}"

_SHEET = css(
    border=_LINE,
    border_radius="6px",
    padding="8px 12px",
    font_size="13px",
    line_height="1.45",
    overflow_x="auto",
)
_TITLE = css(font_weight="bold", font_size="14px", margin="0 0 4px 0")
_FAINT = css(opacity="0.75")
_LINES = {
    "": css(margin="2px 0"),
    "note": css(margin="2px 0", opacity="0.75"),
    "error": css(margin="2px 0", font_weight="bold", white_space="pre-wrap"),
    "hint": css(margin="4px 0", border_left="4px solid #2f8f4e", padding="2px 8px"),
}
_FOLD = css(margin="4px 0")
_INNER = css(margin="4px 0", padding="0 0 0 12px")
_TABLE = css(border_collapse="collapse", margin="4px 0", font_size="13px")
_SCROLL = css(overflow="auto", max_height="480px", border=_LINE)
#: as wide as its picture; windows stand side by side where there is room
_WINDOW = css(
    display="inline-block",
    vertical_align="top",
    overflow="auto",
    max_height="480px",
    max_width="99%",
    margin="0 8px 4px 0",
    border=_LINE,
)
_CODE, _BAR = (
    css(
        background=_NONE,
        font_family="monospace",
        font_size="12px",
        padding="0",
        white_space=space,
    )
    for space in ("pre-wrap", "pre")
)
_ROW = css(background=_NONE)
_LEFT = css(text_align="left", padding="1px 8px 1px 0")
_RIGHT = css(text_align="right", padding="1px 8px 1px 0", white_space="nowrap")
_NAME = css(text_align="left", padding="1px 8px 1px 0", white_space="nowrap", vertical_align="top")
_CELLS = {"number": _RIGHT, "bar": _NAME, "name": _NAME}
_HEADS = {"number": css(text_align="right", padding="1px 8px 1px 0")}
_BESIDE = css(display="flex", flex_wrap="wrap", margin="0 -10px 0 0")
_HEAD = css(font_weight="bold")
_COLUMN = css(flex="1 1 auto", max_width="100%", margin="0 10px 4px 0")
#: of its width a picture keeps this, before the window around it scrolls
_SHRINK = 0.7
#: pixels: a picture no larger than that fits everywhere
_ALWAYS = 400


def to_html(parts: Sequence[p.Part], limit: int = LIMIT) -> str:
    """The parts as HTML of at most `limit` bytes; what does not fit says how to see it."""
    inside = _Writer(limit - _RESERVE - len(_SHEET) - len(render.SHEET)).parts(parts)
    return render.SHEET + tag("div", inside, style=_SHEET, **{"class": render.VIEW})


class _Writer:
    """Writes parts in order, and counts what is left of the budget."""

    def __init__(self, budget: int) -> None:
        self.left = budget
        self.depth = 0

    def parts(self, parts: Sequence[p.Part]) -> Html:
        """Parts one after the other; for each that is still to come a note's room is kept."""
        made = []
        for number, part in enumerate(parts):
            kept = _NOTE * (len(parts) - number - 1)
            self.left -= kept
            made.append(self.part(part))
            self.left += kept
        return join(made)

    def part(self, part: p.Part) -> Html:
        """One part, paid for."""
        if isinstance(part, p.Fold):
            return self.fold(part)
        if isinstance(part, p.Scroll):
            self.left -= len(_SCROLL) + len(scrolled()) + 24
            return tag("div", scrolled(self.parts(part.parts)), style=_SCROLL)
        if isinstance(part, p.Beside):
            return self.beside(part)
        return self.pay(self.written(part))

    def pay(self, made: Html) -> Html:
        """What was made, if there is room for it; a note always has."""
        cost = len(made.encode(errors="replace"))
        if cost > max(self.left, _NOTE):
            return Html("")
        self.left -= cost
        return made

    def written(self, part: p.Part) -> Html:
        """One part."""
        match part:
            case p.Title(text):
                return tag("div", text, style=_TITLE)
            case p.Line(text, "error"):
                return tag("div", text, style=_LINES["error"], **{"class": "mlc-error"})
            case p.Line(text, kind):
                return tag("div", _prose(text), style=_LINES[kind])
            case p.Facts(pairs):
                rows = [[tag("span", n, style=_FAINT), breakable(v)] for n, v in pairs]
                return table(rows, (), (_NAME, _LEFT), _TABLE, _ROW)
            case p.Table():
                return self.table(part)
            case p.Code():
                return self.code(part)
            case p.Picture():
                return self.picture(part)
        raise TypeError(f"no part: {part!r}")

    def fold(self, part: p.Fold) -> Html:
        """A fold with its body, or one line where there is no room for it."""
        note = clip(f"{part.title}: {part.see}" if part.see else part.title, 120)
        if self.left < 2 * _SMALLEST:
            return self.pay(tag("div", note, style=_LINES["note"]))
        style = _INNER if self.depth else _FOLD
        frame = details(part.title, is_open=part.is_open, style=style)
        self.left -= len(frame.encode(errors="replace"))
        self.depth += 1
        inside = self.parts(part.parts)
        self.depth -= 1
        return details(part.title, inside, is_open=part.is_open, style=style)

    def beside(self, part: p.Beside) -> Html:
        """A row of columns under their titles, or one below the other where it is narrow."""
        self.left -= len(_BESIDE) + len(part.columns) * (len(_COLUMN) + len(_HEAD) + 60)
        made = []
        for title, inside in part.columns:
            head = tag("div", title, style=_HEAD) if title else Html("")
            made.append(tag("div", head, self.parts(inside), style=_COLUMN))
        return tag("div", *made, style=_BESIDE)

    def code(self, part: p.Code) -> Html:
        """As much of a listing as there is room for."""
        count = min(part.most, len(part.lines))
        while True:
            lines, left = p.shown_lines(part, count)
            made = Html(render.html(lines, highlight=part.marks)) if lines else Html("")
            cost = len(made.encode(errors="replace"))
            if cost <= self.left - len(left) - 200 or count == 0:
                break
            count = min(count - 1, int(count * (self.left - 400) / cost))
            count = max(count, 0)
        note = tag("div", left, style=_LINES["note"]) if left else Html("")
        return join([made, note])

    def table(self, part: p.Table) -> Html:
        """The first rows, and as many of the others as there is room for folded below."""
        styles = [_CELLS.get(c.kind, _LEFT) for c in part.columns]
        header = [c.title for c in part.columns]
        heads = [_HEADS.get(c.kind, _LEFT) for c in part.columns]
        kinds = [c.kind for c in part.columns]
        rows = [[_shown(c, kind) for c, kind in zip(row, kinds, strict=True)] for row in part.rows]
        fits = self.fitting(rows, 80 * len(kinds) + 60)
        top = min(part.most, fits)
        made = table(rows[:top], header if any(header) else (), styles, _TABLE, _ROW, heads)
        if top == len(rows):
            return made
        title = p.more(len(rows) - top, "row", part.see)
        if fits == len(rows):
            return join(
                [made, details(title, table(rows[top:], (), styles, _TABLE, _ROW), style=_FOLD)]
            )
        return join([made, tag("div", title, style=_LINES["note"])])

    def fitting(self, rows: Sequence[Sequence[str]], frame: int) -> int:
        """How many rows there is room for, where each takes `frame` bytes beside its cells."""
        room = self.left - 2 * _SMALLEST
        for number, row in enumerate(rows):
            room -= frame + sum(len(cell.encode(errors="replace")) for cell in row)
            if room < 0:
                return number
        return len(rows)

    def picture(self, part: p.Picture) -> Html:
        """The picture, a little smaller where it is narrow, in a window that scrolls; a sentence
        where it is too large.
        """
        svg = part.draw()
        least = f"{int(_SHRINK * _width(svg))}px"
        image = img_svg(svg, part.alt, style=css(max_width="100%", min_width=least))
        if _width(svg) > _ALWAYS or _size(_HEIGHT.search(svg)) > _ALWAYS:
            image = scrolled(image)
        if len(image) > self.left - _SMALLEST:
            text = f"{part.alt} (a picture of {size(len(image))}, too large for a cell)"
            return tag("div", text, style=_LINES["note"])
        return tag("div", image, style=_WINDOW)


#: bytes of the smallest part worth showing, and of a note
_SMALLEST = 800
_NOTE = 200


def _width(svg: str) -> float:
    """The width that a picture says it has, in pixels."""
    return _size(_WIDTH.search(svg))


def _size(said: re.Match[str] | None) -> float:
    return float(said[1]) if said else 0.0


_WIDTH, _HEIGHT = (re.compile(rf'<svg[^>]*? {side}="([\d.]+)"') for side in ("width", "height"))


def _shown(value: object, kind: str) -> Html:
    if kind == "bar" and isinstance(value, float):
        return tag("code", bar(value), style=_BAR, **{"class": "mlc-bar"})
    text = "" if value is None else str(value)
    if kind == "prose":
        return _prose(text)
    style = {"code": _CODE, "name": _BAR}.get(kind)
    told = escape(text) if kind == "name" else breakable(text)
    return tag("code", told, style=style) if style and text else told


def _prose(text: str) -> Html:
    """A sentence; what stands between backticks is code."""
    pieces = text.split("`")
    if isinstance(text, Html) or len(pieces) % 2 == 0:
        return breakable(text)  # HTML already, or one of them has no other end
    return join(
        tag("code", breakable(piece), style=_CODE) if number % 2 else breakable(piece)
        for number, piece in enumerate(pieces)
    )
