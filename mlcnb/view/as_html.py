"""Parts as static HTML: one sheet of light paper, within a budget of bytes.

Colours are written into every element, so that the themes of notebooks, light or dark, do not get
between ink and paper. Where styles are dropped (GitHub) tables, folds and listings stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core import render
from mlcnb.view.as_text import bar
from mlcnb.view.html import Html, css, details, escape, img_svg, join, table, tag
from mlcnb.view.parts import (
    Beside,
    Code,
    Facts,
    Fold,
    Line,
    Part,
    Picture,
    Scroll,
    Table,
    Title,
    more,
    shown_lines,
)
from mlcnb.view.words import clip, size

#: bytes of one view
LIMIT = 200_000
#: bytes kept for what closes the page
_RESERVE = 1500
PAPER, INK, FAINT = render.PAPER, render.INK, render.FAINT

_SHEET = css(
    background=PAPER,
    color=INK,
    border="1px solid #d0d7de",
    border_radius="6px",
    padding="8px 12px",
    font_size="13px",
    line_height="1.45",
    overflow_x="auto",
)
_TITLE = css(font_weight="bold", font_size="14px", margin="0 0 4px 0", color=INK)
_LINES = {
    "": css(margin="2px 0", color=INK),
    "note": css(margin="2px 0", color="#57606a"),
    "error": css(margin="2px 0", color="#a40e26", font_weight="bold", white_space="pre-wrap"),
    "hint": css(margin="4px 0", color=INK, border_left="4px solid #22703a", padding="2px 8px"),
}
_FOLD = css(margin="4px 0", color=INK)
_INNER = css(margin="4px 0", color=INK, padding="0 0 0 12px")
_TABLE = css(
    border_collapse="collapse", margin="4px 0", color=INK, background=PAPER, font_size="13px"
)
_SCROLL, _WINDOW = (
    css(overflow="auto", max_height="480px", background=ground, border="1px solid #d0d7de")
    for ground in (PAPER, "#ffffff")
)
_CODE, _BAR = (
    css(
        background=PAPER,
        color=ink,
        font_family="monospace",
        font_size="12px",
        padding="0",
        white_space="pre",
    )
    for ink in (INK, "#1f5fa8")
)
_ROW = css(background=PAPER)
_LEFT = css(text_align="left", padding="1px 14px 1px 0", white_space="nowrap")
_RIGHT = css(text_align="right", padding="1px 14px 1px 0", white_space="nowrap")
_COLUMN = css(text_align="left", vertical_align="top", padding="0 18px 0 0", color=INK)
_PROSE = css(text_align="left", padding="1px 14px 1px 0")
_CELLS = {"number": _RIGHT, "prose": _PROSE}


def to_html(parts: Sequence[Part], limit: int = LIMIT) -> str:
    """The parts as HTML of at most `limit` bytes; what does not fit says how to see it."""
    inside = _Writer(limit - _RESERVE - len(_SHEET)).parts(parts)
    return str(tag("div", inside, style=_SHEET))


class _Writer:
    """Writes parts in order, and counts what is left of the budget."""

    def __init__(self, budget: int) -> None:
        self.left = budget
        self.depth = 0

    def parts(self, parts: Sequence[Part]) -> Html:
        """Parts one after the other; for each that is still to come a note's room is kept."""
        made = []
        for number, part in enumerate(parts):
            kept = _NOTE * (len(parts) - number - 1)
            self.left -= kept
            made.append(self.part(part))
            self.left += kept
        return join(made)

    def part(self, part: Part) -> Html:
        """One part, paid for."""
        if isinstance(part, Fold):
            return self.fold(part)
        if isinstance(part, Scroll):
            self.left -= len(_SCROLL) + 24
            return tag("div", self.parts(part.parts), style=_SCROLL)
        if isinstance(part, Beside):
            return self.beside(part)
        return self.pay(self.written(part))

    def pay(self, made: Html) -> Html:
        """What was made, if there is room for it; a note always has."""
        cost = len(made.encode(errors="replace"))
        if cost > max(self.left, _NOTE):
            return Html("")
        self.left -= cost
        return made

    def written(self, part: Part) -> Html:
        """One part."""
        match part:
            case Title(text):
                return tag("div", text, style=_TITLE)
            case Line(text, kind):
                return tag("div", text, style=_LINES[kind])
            case Facts(pairs):
                rows = [[tag("span", n, style=f"color:{_GREY}"), v] for n, v in pairs]
                return table(rows, (), (_LEFT, _PROSE), _TABLE, _ROW)
            case Table():
                return self.table(part)
            case Code():
                return self.code(part)
            case Picture():
                return self.picture(part)
        raise TypeError(f"no part: {part!r}")

    def fold(self, part: Fold) -> Html:
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

    def beside(self, part: Beside) -> Html:
        """A row of columns under their titles."""
        self.left -= len(_TABLE) + len(part.columns) * (2 * len(_COLUMN) + len(_ROW) + 60)
        cells = [self.parts(inside) for _, inside in part.columns]
        titles = [title for title, _ in part.columns]
        styles = [_COLUMN] * len(cells)
        return table([cells], titles if any(titles) else (), styles, _TABLE, _ROW)

    def code(self, part: Code) -> Html:
        """As much of a listing as there is room for."""
        count = min(part.most, len(part.lines))
        while True:
            lines, left = shown_lines(part, count)
            made = Html(render.html(lines, highlight=part.marks)) if lines else Html("")
            cost = len(made.encode(errors="replace"))
            if cost <= self.left - len(left) - 200 or count == 0:
                break
            count = min(count - 1, int(count * (self.left - 400) / cost))
            count = max(count, 0)
        note = tag("div", left, style=_LINES["note"]) if left else Html("")
        return join([made, note])

    def table(self, part: Table) -> Html:
        """The first rows, and as many of the others as there is room for folded below."""
        styles = [_CELLS.get(c.kind, _LEFT) for c in part.columns]
        header = [c.title for c in part.columns]
        kinds = [c.kind for c in part.columns]
        rows = [[_shown(c, kind) for c, kind in zip(row, kinds, strict=True)] for row in part.rows]
        fits = self.fitting(rows, 80 * len(kinds) + 60)
        top = min(part.most, fits)
        made = table(rows[:top], header if any(header) else (), styles, _TABLE, _ROW)
        if top == len(rows):
            return made
        title = more(len(rows) - top, "row", part.see)
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

    def picture(self, part: Picture) -> Html:
        """The picture in a window that scrolls; a sentence where it is too large."""
        image = img_svg(part.draw(), part.alt, style=css(background="#ffffff", max_width="none"))
        if len(image) > self.left - _SMALLEST:
            text = f"{part.alt} (a picture of {size(len(image))}, too large for a cell)"
            return tag("div", text, style=_LINES["note"])
        return tag("div", image, style=_WINDOW)


#: bytes of the smallest part worth showing, and of a note
_SMALLEST = 600
_NOTE = 200
_GREY = "#57606a"


def _shown(value: object, kind: str) -> Html:
    if kind == "bar" and isinstance(value, float):
        return tag("code", bar(value), style=_BAR)
    text = "" if value is None else str(value)
    return tag("code", text, style=_CODE) if kind == "code" and text else escape(text)
