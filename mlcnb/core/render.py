"""Lines of tokens as coloured text: ANSI for a terminal, static HTML for a cell.

The HTML is one `<pre>` on its own light paper with inline hex colours (contrast 4.5:1 or more), so
it reads on light and dark pages and survives JupyterLab's sanitiser. Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol


class Text:
    """A piece of one line, and its kind (a key of `COLOURS`, "" for plain)."""

    __slots__ = ("kind", "text")

    def __init__(self, text: str, kind: str = "") -> None:
        self.text = text
        self.kind = kind

    def __repr__(self) -> str:
        return f"Text({self.text!r}, {self.kind!r})"


class Range(Protocol):
    """From (line, column) up to (end_line, end_column), counted from 1."""

    @property
    def line(self) -> int:
        """First line."""

    @property
    def column(self) -> int:
        """First column."""

    @property
    def end_line(self) -> int:
        """Last line."""

    @property
    def end_column(self) -> int:
        """The column after the last one, in the last line."""


PAPER = "#f8f9fb"
INK = "#24292f"
FAINT = "#6a737d"

#: kind of token -> colour on paper, ANSI code
COLOURS: dict[str, tuple[str, str]] = {
    "keyword": ("#a5268f", "35"),
    "builtin": ("#1f5fa8", "34"),
    "type": ("#0b7285", "36"),
    "function": ("#6f42c1", "94"),
    "number": ("#9a4a00", "33"),
    "string": ("#22703a", "32"),
    "comment": ("#6a737d", "90"),
    "decorator": ("#6f42c1", "94"),
    "name": (INK, ""),
    "op": (INK, ""),
}


def ansi(lines: Sequence[Sequence[Text]], line_numbers: bool = False) -> str:
    """The lines in ANSI colours."""
    width = len(str(len(lines)))
    out = []
    for number, line in enumerate(lines, 1):
        prefix = f"\x1b[90m{number:>{width}}\x1b[0m  " if line_numbers else ""
        out.append(prefix + "".join(_ansi(token) for token in line))
    return "\n".join(out)


def _ansi(token: Text) -> str:
    code = COLOURS.get(token.kind, ("", ""))[1]
    return f"\x1b[{code}m{token.text}\x1b[0m" if code else token.text


def html(
    lines: Sequence[Sequence[Text]],
    line_numbers: bool = False,
    highlight: Iterable[tuple[Range, str]] = (),
) -> str:
    """The lines as one `<pre>`; `highlight` gives stretches of text a background colour."""
    marks = list(highlight)
    width = len(str(len(lines)))
    out = []
    for number, line in enumerate(lines, 1):
        prefix = _span(f"{number:>{width}}  ", FAINT) if line_numbers else ""
        here = [(r, c) for r, c in marks if r.line <= number <= r.end_line]
        out.append(prefix + (_html_marked(line, number, here) if here else _html(line)))
    style = (
        f"background:{PAPER};color:{INK};padding:8px 10px;margin:0;overflow-x:auto;"
        "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre"
    )
    return f'<pre style="{style}">' + "\n".join(out) + "</pre>"


def _html(line: Sequence[Text], background: str = "") -> str:
    """The tokens of one line, neighbours of one colour in one span."""
    out: list[str] = []
    text, colour = "", INK
    for token in line:
        own = COLOURS.get(token.kind, (INK, ""))[0] if token.text.strip() else colour
        if own != colour:
            out.append(_span(text, colour, background))
            text, colour = "", own
        text += token.text
    out.append(_span(text, colour, background))
    return "".join(out)


def _span(text: str, colour: str, background: str = "") -> str:
    style = "" if colour == INK else f"color:{colour}"
    if background:
        style = f"{style};background:{background}".lstrip(";")
    shown = escape(text, quote=True)
    return f'<span style="{style}">{shown}</span>' if style and text else shown


def _html_marked(line: Sequence[Text], number: int, marks: list[tuple[Range, str]]) -> str:
    """A line with highlighted stretches; the last mark that covers a character wins."""
    backgrounds = _backgrounds(sum(len(t.text) for t in line), number, marks)
    out, column = [], 0
    for token in line:
        start = 0
        while start < len(token.text):
            stop, shade = start + 1, backgrounds[column + start]
            while stop < len(token.text) and backgrounds[column + stop] == shade:
                stop += 1
            out.append(_html([Text(token.text[start:stop], token.kind)], shade))
            start = stop
        column += len(token.text)
    return "".join(out)


def _backgrounds(length: int, number: int, marks: list[tuple[Range, str]]) -> list[str]:
    shades = [""] * length
    for where, colour in marks:
        first = where.column - 1 if number == where.line else 0
        last = where.end_column - 1 if number == where.end_line else length
        shades[first:last] = [colour] * len(shades[first:last])
    return shades


def carets(texts: Sequence[str], ranges: Iterable[Range]) -> dict[int, str]:
    """Line number -> the line of `^` to put under it; indentation gets no carets."""
    marked: dict[int, list[str]] = {}
    for where in ranges:
        for number in range(where.line, where.end_line + 1):
            text = texts[number - 1]
            first = where.column - 1 if number == where.line else len(text) - len(text.lstrip())
            last = where.end_column - 1 if number == where.end_line else len(text)
            row = marked.setdefault(number, [" "] * len(text))
            row[first:last] = ["^"] * len(row[first:last])
    return {number: "".join(row).rstrip() for number, row in marked.items()}
