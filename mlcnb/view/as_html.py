"""Parts as static HTML: one sheet of light paper, within a budget of bytes.

Colours are written into every element, so that the themes of notebooks, light or dark, do not get
between ink and paper. Where styles are dropped (GitHub) tables, folds and listings stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.core import render
from mlcnb.view.as_text import bar
from mlcnb.view.html import Html, css, details, escape, img_svg, join, table, tag
from mlcnb.view.parts import Code, Facts, Fold, Line, Part, Picture, Table, Title, more, shown_lines
from mlcnb.view.words import size

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
_TABLE = css(border_collapse="collapse", margin="4px 0", color=INK, background=PAPER)
_WINDOW = css(overflow="auto", max_height="480px", background="#ffffff", border="1px solid #d0d7de")
_BAR = css(color="#1f5fa8", white_space="pre")
_CODE = css(background=PAPER, color=INK, font_size="12px", padding="0", white_space="pre")


def _cell(align: str) -> str:
    return css(
        text_align=align,
        padding="1px 12px 1px 0",
        background=PAPER,
        color=INK,
        border="none",
        vertical_align="top",
        white_space="pre-wrap",
        font_size="13px",
    )


_LEFT, _RIGHT = _cell("left"), _cell("right")


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
        """Parts one after the other."""
        return join([self.part(part) for part in parts])

    def part(self, part: Part) -> Html:
        """One part, paid for."""
        if isinstance(part, Fold):
            return self.fold(part)
        return self.pay(self.written(part))

    def pay(self, made: Html) -> Html:
        """What was made, if there is room for it."""
        cost = len(made.encode(errors="replace"))
        if cost > self.left:
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
                return table(rows, styles=(_LEFT, _LEFT), style=_TABLE)
            case Table():
                return self.table(part)
            case Code():
                return self.code(part)
            case Picture():
                return self.picture(part)
        raise TypeError(f"no part: {part!r}")

    def fold(self, part: Fold) -> Html:
        """A fold with its body, or one line where there is no room for it."""
        note = f"{part.title}: {part.see}" if part.see else part.title
        if self.left < _SMALLEST:
            return self.pay(tag("div", note, style=_LINES["note"]))
        style = _INNER if self.depth else _FOLD
        frame = details(part.title, is_open=part.is_open, style=style)
        self.left -= len(frame.encode(errors="replace"))
        self.depth += 1
        inside = self.parts(part.parts)
        self.depth -= 1
        return details(part.title, inside, is_open=part.is_open, style=style)

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
        """The first rows, and the others folded below."""
        styles = [_RIGHT if c.kind == "number" else _LEFT for c in part.columns]
        header = [c.title for c in part.columns]
        rows = [
            [_shown(c, k.kind) for c, k in zip(r, part.columns, strict=True)] for r in part.rows
        ]
        made = table(rows[: part.most], header if any(header) else (), styles, _TABLE)
        rest = rows[part.most :]
        if not rest:
            return made
        title = more(len(rest), "row", part.see)
        folded = details(title, table(rest, (), styles, _TABLE), style=_FOLD)
        if len(made) + len(folded) > self.left:
            folded = tag("div", title, style=_LINES["note"])
        return join([made, folded])

    def picture(self, part: Picture) -> Html:
        """The picture in a window that scrolls; a sentence where it is too large."""
        image = img_svg(part.draw(), part.alt, style=css(background="#ffffff", max_width="none"))
        if len(image) > self.left - _SMALLEST:
            text = f"{part.alt} (a picture of {size(len(image))}, too large for a cell)"
            return tag("div", text, style=_LINES["note"])
        return tag("div", image, style=_WINDOW)


_SMALLEST = 600
_GREY = "#57606a"


def _shown(value: object, kind: str) -> Html:
    if kind == "bar" and isinstance(value, float):
        return tag("code", bar(value), style=f"{_CODE};{_BAR}")
    text = "" if value is None else str(value)
    return tag("code", text, style=_CODE) if kind == "code" and text else escape(text)
